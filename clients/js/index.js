// A client of the service for browsers and for servers: fetch, and nothing else.
//
// Requests that get no answer are sent again: an outcome counts once, however often it comes, and a decision is
// known by its idempotency key, so that it is made and counted once.

export class ServiceError extends Error {
  constructor(status, problem) {
    super(`${status}: ${problem.title ?? "no reason given"}`);
    this.name = "ServiceError";
    this.status = status;
    this.problem = problem;
    this.code = String(problem.type ?? "").split("#").pop();
  }
}

export class Client {
  #base; #key; #current = null; #timeout; #retries;

  // key: a key, a token, or a function that gets one from your server; it is asked again when that is over.
  constructor(url, key, { timeout = 10000, retries = 4 } = {}) {
    const parsed = new URL(url);
    if (!["http:", "https:"].includes(parsed.protocol)) throw new TypeError("url must be like https://decide.example");
    if (typeof key !== "string" && typeof key !== "function") throw new TypeError("key must be a text, or a function that gets one");
    this.#base = parsed.href.replace(/\/+$/, "");
    this.#key = key;
    this.#timeout = timeout;
    this.#retries = retries;
  }

  // A set of items for somebody. A browser's token names the person by itself. history: for personal sets.
  async decide(experiment, { person, exclude, segment, key, history } = {}) {
    return decision(await this.#decided(experiment, { person, exclude, segment, history }, key));
  }

  // On a server: decisions for these people, or so many for anybody where a population is anonymous; at most 1,000.
  // Ask for those who will see their items: a decision without an outcome counts as one that took nothing.
  async decideMany(experiment, people, { exclude, segment, key } = {}) {
    const whom = typeof people === "number" ? { count: people } : { people: [...people] };
    const found = await this.#decided(experiment, { ...whom, exclude, segment }, key);
    return (found.decisions ?? [found]).map(decision);
  }

  // For an anonymous population with a steady stream of visitors: decisions one by one, fetched many at a time,
  // without those whose time is over. const next = client.prefetched("shop"); (await next.next()).value
  async *prefetched(experiment, many = 100, { segment } = {}) {
    for (;;) {
      for (const one of await this.decideMany(experiment, many, { segment })) {
        if (Date.parse(one.expires) > Date.now()) yield one;
      }
    }
  }

  #decided(experiment, asked, key) {
    const known = key ?? (this.#retries ? crypto.randomUUID() : undefined);
    return this.request("POST", `/v1/experiments/${encodeURIComponent(experiment)}/decisions`,
      JSON.parse(JSON.stringify(asked)), known === undefined ? {} : { "idempotency-key": known });
  }

  // The latest public model of personal sets, for PersonalModel of personal.js.
  model(experiment) {
    return this.request("GET", `/v1/experiments/${encodeURIComponent(experiment)}/model`);
  }

  // What came of a decision: one of taken, value and likes; with personal sets {likes, served}.
  report(decision, outcome) {
    const id = typeof decision === "string" ? decision : decision.id;
    return this.request("POST", `/v1/decisions/${encodeURIComponent(id)}/outcome`, only(outcome));
  }

  // Many at once: {decision, taken | value | likes}. One that is not as it should be is refused by itself.
  reportMany(outcomes) {
    return this.request("POST", "/v1/outcomes", outcomes.map(({ decision, taken, value, likes, served }) => (
      { decision_id: typeof decision === "string" ? decision : decision.id, taken, value, likes, served })));
  }

  // On a server, with a key: a token for the browser of one person.
  token(experiment, { person, seconds = 900 } = {}) {
    return this.request("POST", `/v1/experiments/${encodeURIComponent(experiment)}/tokens`, JSON.parse(JSON.stringify({ person, seconds })));
  }

  // Any route of the service; what it answers.
  async request(method, path, body, headers = {}) {
    let pause = 50, renewed = false;
    for (let attempt = 0; ; attempt += 1) {
      const last = attempt >= this.#retries;
      let wait = pause;
      let answer = null;
      try {
        answer = await fetch(this.#base + path, {
          method,
          headers: { authorization: `Bearer ${await this.#token()}`, "content-type": "application/json", ...headers },
          body: body === undefined ? undefined : JSON.stringify(body),
          signal: AbortSignal.timeout(this.#timeout),
          credentials: "omit",
          cache: "no-store",
        });
      } catch (error) {
        if (last) throw error;
      }
      if (answer !== null) {
        if (answer.ok) return answer.status === 204 ? null : answer.json();
        const over = answer.status === 401 && typeof this.#key === "function" && !renewed;
        if (over) { this.#current = null; renewed = true; continue; }
        if (last || ![429, 503].includes(answer.status)) throw new ServiceError(answer.status, await answer.json().catch(() => ({})));
        const after = answer.headers.get("retry-after") ?? "";
        if (/^\d+$/.test(after)) wait = 1000 * Number(after);
      }
      await new Promise((done) => setTimeout(done, wait));
      pause *= 2;
    }
  }

  async #token() {
    if (typeof this.#key === "string") return this.#key;
    this.#current ??= Promise.resolve(this.#key());
    try {
      const found = await this.#current;
      return typeof found === "string" ? found : found.token;
    } catch (error) {
      this.#current = null;
      throw error;
    }
  }
}

// Whether a release was sent by the service: its body as text, its Discreet-Signature header, and the secret of
// the webhook. Refused if it is older than a while: somebody may send what was seen again.
export async function verified(body, header, secret, { seconds = 300, now = Date.now() / 1000 } = {}) {
  const parts = Object.fromEntries(String(header).split(",").map((one) => one.trim().split("=")));
  if (!(Math.abs(now - Number(parts.t)) <= seconds) || !/^[0-9a-f]{64}$/.test(parts.v1 ?? "")) return false;
  const text = new TextEncoder();
  const key = await crypto.subtle.importKey("raw", text.encode(secret), { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
  const sent = Uint8Array.from(parts.v1.match(/../g), (pair) => parseInt(pair, 16));
  return crypto.subtle.verify("HMAC", key, sent, text.encode(`${parts.t}.${body}`));
}

function decision(found) {
  return { id: found.decision_id, items: found.items, policy: found.policy, expires: found.expires, propensity: found.propensity ?? null, personal: found.personal ?? false };
}

function only(outcome) {
  const given = ["taken", "value", "likes"].filter((name) => outcome?.[name] !== undefined);
  if (given.length !== 1) throw new TypeError("give one of taken, value and likes");
  const served = outcome.served === undefined ? {} : { served: outcome.served };
  return { [given[0]]: outcome[given[0]], ...served };
}

// On a device: what the service would answer to this history, which stays here. model: a PersonalModel of
// personal.js; decision: asked for without a history. The hold-out sees what is most popular.
export function ownItems(decision, model, history, { k = decision.items.length, exclude = [] } = {}) {
  const known = history.filter((label) => model.number(label) !== undefined);
  const found = decision.personal
    ? model.recommend(history, { k, exclude })
    : model.recommend([], { k, exclude: [...exclude, ...known] });
  return found.map((one) => one.label);
}
