"use strict";
// The chart of shares: solid for learned sets, dashed for random ones, bands for the noise. Without it the
// same numbers stand in the table below.
(function () {
  const home = document.getElementById("chart");
  if (!home || !window.uPlot) return;
  const empty = document.getElementById("no-chart");
  const readout = document.getElementById("readout");
  const names = ["learned", "learned_low", "learned_high", "random", "random_low", "random_high"];
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
    const half = (found[name + "_high"][index] - found[name + "_low"][index]) / 2;
    return shown(middle) + percent + " ± " + shown(half);
  }

  function read(index) {
    if (index === null || index === undefined || found.decisions[index] === null) { readout.textContent = words; return; }
    const parts = [time.format(new Date(1000 * found.at[index])) + " UTC", found.decisions[index].toLocaleString("en-US") + " decisions"];
    const learned = side(index, "learned"), random = side(index, "random");
    if (learned) parts.push("learned " + learned);
    if (random) parts.push("random " + random);
    readout.textContent = parts.join(" · ");
  }

  // The hold-out's band may leave the chart: it is wide at first, and would flatten the rest.
  function range() {
    const all = [].concat(found.learned_low, found.learned_high, found.learned, found.random).filter((one) => one !== null);
    if (!all.length) return [0, 1];
    const low = Math.min(...all), high = Math.max(...all), room = Math.max(0.02, 0.1 * (high - low));
    return [Math.max(0, low - room), Math.min(1, high + room)];
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
      scales: { y: { range } },
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
