// The section on trainings: which one, which site and which step; charts, events and tables.

function createView(tracks) {
  const kept = remembered();
  const listeners = [];
  const view = { listeners };
  const changed = () => listeners.forEach((listener) => listener());

  view.choose = (track, name, step) => {
    view.track = track;
    const lowest = d3.least(track.sites, (site) => site.score.at(-1) ?? Infinity);
    view.site = track.sites.find((site) => site.name === name) ?? lowest ?? null;
    view.step = step ?? track.steps.length - 1;
  };
  view.select = (site, step) => {
    [view.site, view.step] = [site, step];
    changed();
  };
  view.show = (track) => {
    view.choose(track, view.site?.name);
    changed();
  };
  // Steps are remembered by their number: a page that is loaded again may have others.
  view.memory = () => ({
    track: view.track.name,
    site: view.site?.name,
    step: view.step === view.track.steps.length - 1 ? null : view.track.steps[view.step],
  });
  const track = tracks.find(({ name }) => name === kept.track) ?? tracks[0];
  view.choose(track, kept.site, kept.step == null ? null : nearestStep(track.steps, kept.step));
  return view;
}

function changeText([first, last]) {
  return first == null || last == null ? "" : `${last < first ? "−" : "+"}${Math.abs(last - first).toFixed(3)} since the first`;
}

function trainingCards(track) {
  const [last, step] = [track.steps.length - 1, track.steps.at(-1)];
  const site = d3.least(track.sites, (one) => one.score[last] ?? Infinity);
  const dead = d3.mean(track.sites, (one) => one.dead[last]);
  const count = track.events.length + track.moreEvents;
  const noun = track.measurements === 1 ? "measurement" : "measurements";
  return [
    cardOf("Step", asCount(step), `${asCount(track.measurements)} ${noun}, ${track.state}`),
    cardOf(`Mean ${SCORE_NAMES[track.estimator]}`, asStatistic(track.mean[last]), changeText([track.mean[0], track.mean[last]])),
    cardOf("Most non-linear site", named(shortened(site.name, 40)), asScore(site.score[last])),
    cardOf("Dead channels", dead == null ? "–" : d3.format(".1%")(dead), "mean over the sites"),
    ...(count ? [cardOf("Events", asCount(count), "see below")] : []),
  ];
}

function thinnedText({ steps, measurements, file, all }) {
  if (steps.length === measurements) return "";
  const drawn = `Drawn are ${asCount(steps.length)} of ${asCount(measurements)} measurements.`;
  if (all) return `${drawn} The tables and the CSV file have the scores of all.`;
  return `${drawn} The file of the track has all${file ? `: ${file}` : ""}.`;
}

// A table of trainings, where there are several, and a choice of one.
function createTrainings(tracks, view) {
  if (tracks.length < 2) return;
  const options = tracks.map(({ name, number }) => element("option", { value: number }, name));
  const select = element("select", { id: "walk-training" }, ...options);
  select.value = view.track.number;
  select.addEventListener("change", () => view.show(tracks[Number(select.value)]));
  const label = element("label", { for: "walk-training" }, "Training");
  const names = ["training", "measurements", "step", "mean score", "state"];
  const heads = names.map((text, place) => ({ text, numeric: place > 0 && place < 4 }));
  const rows = tracks.map((track) => [
    named(track.name),
    asCount(track.measurements),
    track.steps.length ? asCount(track.steps.at(-1)) : "–",
    `${asStatistic(track.mean[0])} → ${asStatistic(track.mean.at(-1))}`,
    named(track.state),
  ]);
  const table = tableOf("Trainings on this page; the mean is over the sites, first → last.", heads, rows);
  byId("trainings").replaceChildren(framed("Trainings", table), element("div", { class: "walk" }, label, select));
}

function drawTrainingKey(track, site) {
  const sample = (attributes) => {
    const svg = svgPart("svg", { viewBox: "0 0 22 10", class: "sample", "aria-hidden": "true" });
    svg.append(svgPart("path", { d: "M1 5H21", ...attributes }));
    return svg;
  };
  const item = (mark, text) => element("span", { class: "item" }, mark, named(text));
  const gap = svgPart("svg", { viewBox: "0 0 22 10", class: "sample", "aria-hidden": "true" });
  gap.append(svgPart("rect", { width: 22, height: 10, fill: "url(#no-score)" }));
  byId("training-ramp").replaceChildren(drawScoreRamp(track));
  byId("training-key").replaceChildren(
    item(sample({ stroke: slotColor(0), "stroke-width": 2 }), shortened(site.name, 32)),
    item(sample({ stroke: "var(--ink)", "stroke-width": 1.8, "stroke-dasharray": "5 3" }), "mean"),
    ...(track.sites.some((one) => one.score.includes(null)) ? [item(gap, "no score")] : []),
  );
}

// Each event is a button that shows its site and step.
function eventsList(track, view) {
  const items = track.events.map(({ step, site, what, text }) => {
    const show = () => site && view.select(site, nearestStep(track.steps, step));
    const button = buttonOf(`Step ${asCount(step)}`, show);
    const letter = element("span", { class: "letter", "aria-hidden": "true" }, EVENTS[what]?.[0] ?? "!");
    return element("li", {}, letter, button, named(text));
  });
  const more = track.moreEvents ? [element("p", { class: "quiet" }, `${asCount(track.moreEvents)} more are in the file.`)] : [];
  const lead = element("p", {}, "Events, and the step at which each was first seen:");
  return [lead, element("ul", { class: "events" }, ...items), ...more];
}

function createTraining(tracks) {
  byId("training").closest("section").hidden = false;
  const view = createView(tracks);
  createTrainings(tracks, view);
  const [map, lines] = [createTrackMap(byId("training-map"), view), createTrackLines(byId("training-lines"), view)];
  const [select, slider] = [byId("walk-tracked"), byId("walk-step")];

  function read() {
    const text = said(describeMoment(view.track, view.site, view.step));
    slider.setAttribute("aria-valuetext", text);
    byId("training-readout").replaceChildren(named(text));
  }

  function draw() {
    const empty = !view.site;
    byId("training-charts").hidden = byId("training-cards").hidden = empty;
    byId("thinned").textContent = empty ? "Nothing was measured yet." : thinnedText(view.track);
    byId("thinned").hidden = !byId("thinned").textContent;
    if (empty) return;
    drawTrainingKey(view.track, view.site);
    const frame = frameOf(view.track, byId("training-map").clientWidth);
    map.draw(frame);
    lines.draw(frame);
  }

  function begin() {
    if (!view.site) return draw();
    select.replaceChildren(...view.track.sites.map(({ number, name }) => element("option", { value: number }, name)));
    select.value = view.site.number;
    slider.max = view.track.steps.length - 1;
    slider.value = view.step;
    read();
    byId("training-cards").replaceChildren(...trainingCards(view.track));
    byId("training-events").replaceChildren(...(view.track.events.length ? eventsList(view.track, view) : []));
    createTrackTables(view);
    return draw();
  }

  const point = () => map.point(view.site, view.step);
  select.addEventListener("change", () => view.select(view.track.sites[Number(select.value)], view.step));
  slider.addEventListener("input", () => {
    view.step = slider.valueAsNumber;
    read();
    point();
  });
  slider.addEventListener("focus", point);
  slider.addEventListener("blur", map.hide);
  view.listeners.push(begin);
  begin();
  return { view, draw };
}
