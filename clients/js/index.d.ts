/** A refusal of the service: a status, a name to go by (`code`), and whatever else it said. */
export class ServiceError extends Error {
  readonly status: number;
  readonly code: string;
  readonly problem: Readonly<Record<string, unknown>>;
}

export interface Decision {
  readonly id: string;
  readonly items: readonly string[];
  readonly policy: string;
  /** Until when an outcome counts at the least, in UTC. */
  readonly expires: string;
  readonly propensity: number | null;
  /** With personal sets: whether it is the person's own, and not of the hold-out. */
  readonly personal: boolean;
}

export interface Acknowledgement {
  readonly status: "recorded" | "duplicate" | "late" | "refused";
  /** Whether the decision is one that is learned from. */
  readonly counted: boolean;
}

export type Outcome = { taken: string | null } | { value: number } | { likes: readonly string[]; served?: boolean };

export interface BrowserToken { readonly token: string; readonly expires: string; }

/** A key, a token, or a function that gets one from your server; it is asked again when that is over. */
export type Credential = string | (() => string | BrowserToken | Promise<string | BrowserToken>);

export interface Asked {
  /** Whom it is for. A browser's token names the person by itself. */
  person?: string;
  /** Items that cannot be shown: public facts only. */
  exclude?: readonly string[];
  segment?: string;
  /** For personal sets: what the person had. The service uses it for this answer and keeps it nowhere. */
  history?: readonly string[];
  /** An idempotency key of your own; each call has one by default. */
  key?: string;
}

export class Client {
  constructor(url: string, key: Credential, options?: { timeout?: number; retries?: number });
  decide(experiment: string, asked?: Asked): Promise<Decision>;
  /** On a server: for these people, or so many for anybody where a population is anonymous; at most 1,000. */
  decideMany(experiment: string, people: Iterable<string> | number, asked?: Omit<Asked, "person" | "history">): Promise<Decision[]>;
  /** Decisions for anybody, one by one, fetched `many` at a time. What is fetched and not shown counts as "took nothing". */
  prefetched(experiment: string, many?: number, asked?: { segment?: string }): AsyncGenerator<Decision, never>;
  /** The latest public model of personal sets, for PersonalModel of personal.js. */
  model(experiment: string): Promise<any>;
  report(decision: Decision | string, outcome: Outcome): Promise<Acknowledgement>;
  reportMany(outcomes: readonly ({ decision: Decision | string } & Outcome)[]): Promise<Acknowledgement[]>;
  /** On a server, with a key: a token for the browser of one person, for up to an hour. */
  token(experiment: string, options?: { person?: string; seconds?: number }): Promise<BrowserToken>;
  request(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<any>;
}

/** On a device: what the service would answer to this history, which stays there. */
export function ownItems(
  decision: Decision, model: any, history: readonly string[], options?: { k?: number; exclude?: readonly string[] },
): string[];

/** Whether a release was sent by the service that has this secret, within the last minutes. */
export function verified(
  body: string, header: string, secret: string, options?: { seconds?: number; now?: number },
): Promise<boolean>;
