"use strict";
// The chart of shares: solid for learned sets, dashed for those of the hold-out, bands for their 95 % intervals.
// Without it the same numbers stand in the table below.
(function () {
  const home = document.getElementById("chart");
  if (!home || !window.uPlot) return;
  const empty = document.getElementById("no-chart");
  const readout = document.getElementById("readout");
  const names = ["learned", "learned_low", "learned_high", "control", "control_low", "control_high"];
  const unit = home.dataset.unit ? Number(home.dataset.unit) : 0;  // of values; 0 for shares of people
  const words = readout.textContent;
  let plot = null, found = null;

  const shown = (part) => unit ? (unit * part).toFixed(3) : (100 * part).toFixed(1);
  const percent = unit ? "" : " %";
  const time = new Intl.DateTimeFormat("en-GB", {
    timeZone: "UTC", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit",
  });
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function side(index, name) {
    const middle = found[name][index];
    if (middle === null) return null;
    return shown(middle) + percent + " (" + shown(found[name + "_low"][index]) + " to " + shown(found[name + "_high"][index]) + ")";
  }

  function read(index) {
    if (index === null || index === undefined || found.decisions[index] === null) { readout.textContent = words; return; }
    const parts = [time.format(new Date(1000 * found.at[index])) + " UTC", found.decisions[index].toLocaleString("en-US") + " decisions"];
    const learned = side(index, "learned"), control = side(index, "control");
    if (learned) parts.push("learned " + learned);
    if (control) parts.push(home.dataset.control + " " + control);
    readout.textContent = parts.join(" · ");
  }

  // From nothing to above the highest band: what is hardly known is not drawn at all.
  function range() {
    const all = [].concat(found.learned_high, found.control_high).filter((one) => one !== null);
    return [0, all.length ? Math.min(1, 1.1 * Math.max(0.01, ...all)) : 1];
  }

  // One point has no axis of its own: a quarter of an hour around it.
  function times(self, low, high) {
    return high - low < 1 ? [low - 450, high + 450] : [low, high];
  }

  const day = new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", day: "numeric", month: "short" });
  function ticks(self, at, axis, space, step) {
    let before = "";
    return at.map((one) => {
      const iso = new Date(1000 * one).toISOString(), date = day.format(new Date(1000 * one));
      const clock = iso.slice(11, step < 1 ? 21 : step < 60 ? 19 : 16), same = date === before;
      before = date;
      return step >= 86400 ? date : same ? clock : clock + "\n" + date;
    });
  }

  function options() {
    const ink = color("--soft"), rule = color("--rule");
    const axis = { stroke: ink, grid: { stroke: rule, width: 1 }, ticks: { stroke: rule, width: 1 }, font: "13px system-ui, sans-serif" };
    const dots = (self, series) => self.data[series].filter((one) => one !== null).length < 30;
    const hidden = { stroke: "transparent", points: { show: false }, width: 0 };
    return {
      width: home.clientWidth, height: Math.max(220, Math.min(340, home.clientWidth * 0.42)),
      tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, points: { size: 8 } },
      scales: { x: { range: times }, y: { range } },
      axes: [Object.assign({ space: 100, size: 56, values: ticks }, axis),
        Object.assign({ size: 58, values: (self, ticks) => ticks.map((one) => Math.round(1000 * one * (unit || 100)) / 1000 + percent) }, axis)],
      series: [{},
        { stroke: color("--learned"), width: 2.5, points: { show: dots, size: 6, fill: color("--learned") } }, hidden, hidden,
        { stroke: color("--random"), width: 2.5, dash: [7, 5], points: { show: dots, size: 6, fill: color("--paper") } }, hidden, hidden],
      bands: [{ series: [3, 2], fill: color("--learned-band") }, { series: [6, 5], fill: color("--random-band") }],
      hooks: { setCursor: [(self) => read(self.cursor.idx)] },
    };
  }

  function draw() {
    if (plot) plot.destroy();
    plot = null;
    const any = found && found.at.length > 0;
    home.hidden = !any;
    empty.hidden = any;
    if (any) plot = new uPlot(options(), [found.at].concat(names.map((name) => found[name])), home);
  }

  async function load() {
    try {
      const answer = await fetch(home.dataset.source, { credentials: "same-origin" });
      if (!answer.ok) return;
      const before = found;
      found = await answer.json();
      if (plot && before && before.at.length > 0) plot.setData([found.at].concat(names.map((name) => found[name])));
      else draw();
    } catch { /* the next release tries again */ }
  }

  home.addEventListener("keydown", (event) => {
    if (!plot || !["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) return;
    event.preventDefault();
    const last = found.at.length - 1, now = plot.cursor.idx;
    let next = event.key === "Home" ? 0 : event.key === "End" ? last
      : now === null || now === undefined ? last : now + (event.key === "ArrowLeft" ? -1 : 1);
    next = Math.max(0, Math.min(last, next));
    plot.setCursor({ left: plot.valToPos(found.at[next], "x"), top: plot.valToPos(found.learned[next] || 0, "y") });
  });
  new ResizeObserver(() => { if (plot && Math.abs(plot.width - home.clientWidth) > 1) draw(); }).observe(home);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  document.body.addEventListener("released", load);
  load();
})();

// What is wrong with a form is read out first.
(function () {
  const errors = document.getElementById("errors");
  if (errors) errors.focus();
})();

// A key that is shown once can be copied, where the browser allows that; it can be selected anyway.
(function () {
  for (const button of document.querySelectorAll("button.copy")) {
    const text = document.getElementById(button.dataset.copies);
    button.hidden = false;
    button.addEventListener("click", async () => {
      const said = document.getElementById("copied");
      try {
        await navigator.clipboard.writeText(text.textContent);
        said.textContent = "Copied.";
      } catch {
        getSelection().selectAllChildren(text);
        said.textContent = "Selected: copy it with the keyboard.";
      }
    });
  }
})();
