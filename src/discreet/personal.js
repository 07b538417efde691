// Personal sets in a browser or an app, from a model that discreet has exported: no dependencies, no network.
//
//   const model = new PersonalModel(await (await fetch("model.json")).json());
//   model.recommend(["tea", "milk"], { k: 5, exclude: ["soap"] });   // [{ item: 3, label: "jam" }, ...]
//
// The model is public: it is made of differentially private releases. The history never leaves the device.
// The sets are those of Recommender.recommend in Python.

class PersonalModel {
  constructor(exported) {
    if (exported.format !== "discreet-item-model" || exported.version !== 1) {
      throw new Error("this is no item model that discreet has exported, or of another version");
    }
    this.labels = exported.labels;
    this.popularity = exported.popularity;
    this.paired = exported.paired;
    this.priorItems = exported.prior_items;
    this.base = exported.base || [];
    this.left = exported.left || [];
    this.right = exported.right || [];
    this.features = exported.features || null;
    this.strength = exported.strength;
    this.place = new Map(this.paired.map((item, place) => [item, place]));
    this.numbers = new Map((this.labels || []).map((label, item) => [label, item]));
    const others = this.popularity.filter((_, item) => !this.place.has(item));
    this.highest = others.reduce((most, one) => Math.max(most, one), 0);
  }

  // The number of an item by its label, or by its number where that is no label; undefined for none.
  number(name) {
    if (this.numbers.has(name)) return this.numbers.get(name);
    return Number.isInteger(name) && name >= 0 && name < this.popularity.length ? name : undefined;
  }

  // Items of a history that are known, each once, with their weights: of an array, or a Map to weights.
  history(given) {
    const found = new Map();
    const pairs = given instanceof Map ? [...given] : given.map((name) => [name, 1]);
    for (const [name, weight] of pairs) {
      if (!(weight >= 0 && weight <= 1)) throw new Error("a weight of a history is a number from 0 to 1");
      const item = this.number(name);
      if (item !== undefined) found.set(item, Math.max(weight, found.get(item) || 0));
    }
    return found;
  }

  // A number for each item: the more, the likelier it is next to this history.
  scores(given) {
    const scores = this.byPairs(given);
    const known = [...this.history(given)];
    const squares = known.reduce((sum, [, weight]) => sum + weight * weight, 0);
    if (this.features === null || squares === 0) return scores;
    const taste = this.features[0].map((_, d) =>
      known.reduce((sum, [item, weight]) => sum + weight * this.features[item][d], 0) / Math.sqrt(squares));
    return scores.map((score, item) => {
      const alike = this.features[item].reduce((sum, one, d) => sum + one * taste[d], 0);
      const value = Math.max(this.place.has(item) ? score : this.popularity[item], 0);
      return value * Math.exp(Math.min(this.strength * alike, 6));
    });
  }

  byPairs(given) {
    const kept = [...this.history(given)].filter(([item]) => this.place.has(item));
    if (!this.base.length || !kept.length) return this.popularity.slice();
    let squares = 0;
    for (const [, weight] of kept) squares += weight * weight;
    const length = Math.sqrt(Math.max(1, squares + this.priorItems));
    const rank = this.left[0].length;
    const taste = new Array(rank).fill(0);
    for (const [item, weight] of kept) {
      const line = this.left[this.place.get(item)];
      for (let r = 0; r < rank; r++) taste[r] += (weight / length) * line[r];
    }
    const paired = this.base.map((base, place) => {
      let sum = 0;
      for (let r = 0; r < rank; r++) sum += this.right[place][r] * taste[r];
      return base + sum;
    });
    let lowest = Infinity;
    for (const one of paired) lowest = Math.min(lowest, one);
    for (const [item, weight] of kept) {  // nothing speaks for itself
      const place = this.place.get(item);
      let own = 0;
      for (let r = 0; r < rank; r++) own += this.left[place][r] * this.right[place][r];
      paired[place] -= (weight / length) * own;
    }
    return this.popularity.map((one, item) =>
      this.place.has(item) ? paired[this.place.get(item)] : lowest + (one - this.highest - 1));
  }

  // The best items that are not in the history: what must be included first, then by falling score.
  recommend(given = [], { k = 5, available = null, exclude = [], include = [] } = {}) {
    const size = this.popularity.length;
    const listed = (what, names) => names.map((name) => {
      const item = this.number(name);
      if (item === undefined) throw new Error(`${what} holds ${JSON.stringify(name)}, which is no item`);
      return item;
    });
    if (!Number.isInteger(k) || k < 1 || k > size) throw new Error(`k=${k} must be from 1 to ${size}`);
    const allowed = new Set(available === null ? this.popularity.keys() : listed("available", available));
    for (const item of listed("exclude", exclude)) allowed.delete(item);
    const first = [...new Set(listed("include", include))];
    if (first.length > k) throw new Error(`include holds ${first.length} items; a set has k=${k}`);
    for (const item of first) {
      if (!allowed.delete(item)) throw new Error(`include holds item ${item}, which is not available`);
    }
    for (const item of this.history(given).keys()) allowed.delete(item);
    const steps = this.scores(given).map((score) => nearest(score * 2 ** 40));
    const rest = [...allowed].sort((one, other) => steps[other] - steps[one] || one - other);
    return [...first, ...rest].slice(0, k).map((item) => (
      { item, label: this.labels === null ? item : this.labels[item] }));
  }
}

// The nearest whole number, and of two the even one: as Python rounds.
function nearest(x) {
  const whole = Math.floor(x);
  const over = x - whole;
  return over < 0.5 || (over === 0.5 && whole % 2 === 0) ? whole : whole + 1;
}

if (typeof module !== "undefined") module.exports = { PersonalModel };
