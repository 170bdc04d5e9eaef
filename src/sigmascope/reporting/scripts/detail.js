// What is known of one site: opened by a click in the chart, by Enter on the slider, or by a link.

// The columns of details.py, of one site; null where the page was too large for them.
function detailOf({ details, count }, { number }) {
  if (!details) return null;
  const texts = ["shape", "dtype", "axis", "formula", "role", "certified"].map((name) => [name, namesOf(details[name], count)[number]]);
  const values = ["low", "high", "dead", "gain"].map((name) => [name, unpacked(details[name], count)[number]]);
  const scores = details.scores[number].map((score, batch) => ({ batch: batch + 1, score }));
  return { ...Object.fromEntries([...texts, ...values]), scores, histogram: histogramOf(details.histogram[number]) };
}

// Cells with their borders, and how high they are, from 0 to 1.
function histogramOf(packed) {
  if (!packed) return null;
  const [left, right, bottom, top, levels] = packed;
  const side = Math.round(Math.sqrt(levels.length));
  const [width, height] = [(right - left) / side || 1, (top - bottom) / side || 1];
  const cells = Array.from(levels, (level, place) => {
    const [x1, y1] = [left + Math.floor(place / side) * width, bottom + (place % side) * height];
    return { x1, x2: x1 + width, y1, y2: y1 + height, level: parseInt(level, 36) / 35 };
  });
  return { cells: cells.filter(({ level }) => level), x: [left, left + side * width], y: [bottom, bottom + side * height] };
}

const intervalOf = (low, high) => (low == null || high == null ? "" : `${asScore(low)} to ${asScore(high)}`);

const withInterval = (value, interval) => (interval ? `${asScore(value)}, 95 % interval ${interval}` : asScore(value));

const populationInterval = ({ population, half }) =>
  population == null || half == null ? "" : intervalOf(population - half, Math.min(1, population + half));

// Pairs of a label and a text; those without a text are left out.
function factsOf(network, site, detail) {
  const metrics = Object.entries(network.metrics).map(([name, packed]) => [name, unpacked(packed, network.count)[site.number]]);
  return [
    ["published score", site.score == null ? "" : `${withInterval(site.score, intervalOf(detail?.low, detail?.high))} (mean of ${batchesOf(site)})`],
    ["population score", site.population == null ? "" : withInterval(site.population, populationInterval(site))],
    ["remark", site.reason],
    ["activation", site.kind],
    ["formula", detail?.formula],
    ["role", detail?.role],
    ["input", detail ? `${detail.shape}, ${detail.dtype}` : ""],
    ["channels", [site.dim ? asCount(site.dim) : "", detail?.axis].filter(Boolean).join(", ")],
    ["samples per batch", site.n ? asCount(site.n) : ""],
    ["transport proved by, batches", detail?.certified],
    ["constant channels", detail?.dead == null ? "" : asPercent(detail.dead)],
    ["output spread / input spread", detail?.gain == null ? "" : asNumber(detail.gain)],
    ...metrics.map(([name, value]) => [name, value == null ? "" : asNumber(value)]),
  ].filter(([, text]) => text);
}

const wordsOf = (facts) =>
  element("dl", { class: "pairs" }, ...facts.map(([name, text]) => element("div", {}, element("dt", {}, name), element("dd", {}, named(text)))));

function chartsOf(network, site, detail, width) {
  if (!detail) return [element("p", {}, "Batches, axes and histograms are left out to keep this page small; the signature file has them.")];
  const part = (title, chart) => element("div", { class: "part" }, element("h4", {}, title), ...chart);
  return [
    part("Score by batch", drawBatches(site, detail, width)),
    part("Inputs against outputs", drawHistogram(site, detail.histogram, width)),
  ];
}

// Opens and closes the panel; `changed` hears of it.
function createDetail(chart, changed) {
  const home = byId("detail");
  let [current, before] = [null, null];
  const buttons = ["Previous", "Next", "Close"].map((text, place) => buttonOf(text, [() => step(-1), () => step(1), () => close()][place]));
  const title = element("h3", { id: "detail-title", tabindex: "-1" });
  const where = element("p", { class: "quiet" });
  const charts = element("div", { class: "parts" });
  const facts = element("div", {});
  home.replaceChildren(element("div", { class: "head" }, title, element("div", { class: "take" }, ...buttons)), where, charts, facts);

  function draw() {
    if (!current) return;
    const { network, site } = current;
    const width = Math.min(480, home.clientWidth < 700 ? home.clientWidth : (home.clientWidth - 32) / 2);
    const detail = detailOf(network, site);
    title.replaceChildren(named(site.name));
    where.replaceChildren(named(`${network.name}, call ${site.number + 1} of ${network.count}`));
    charts.replaceChildren(...chartsOf(network, site, detail, width));
    facts.replaceChildren(wordsOf(factsOf(network, site, detail)));
    [buttons[0].disabled, buttons[1].disabled] = [site.number === 0, site.number === network.count - 1];
  }

  function open(network, site, { focus = true } = {}) {
    if (!home.contains(document.activeElement)) before = document.activeElement;
    current = { network, site };
    home.hidden = false;
    draw();
    chart.show(network, site);
    if (focus) {
      title.focus({ preventScroll: true });
      home.scrollIntoView({ block: "nearest" });
    }
    changed();
  }

  function step(by) {
    open(current.network, current.network.sites[current.site.number + by], { focus: false });
    if (document.activeElement === document.body) title.focus({ preventScroll: true }); // the button was disabled
  }

  function close() {
    if (!current) return;
    [current, home.hidden] = [null, true];
    chart.hide();
    before?.focus({ preventScroll: true });
    changed();
  }

  home.addEventListener("keydown", (event) => event.key === "Escape" && close());
  return { draw, open, close, current: () => current };
}
