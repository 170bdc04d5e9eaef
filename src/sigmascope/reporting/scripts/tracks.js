// The scores over the steps of trainings, unpacked; tracks.py packs them.

const UNIT = 1e4; // scores are whole numbers in the document
const EVENTS = { dead: ["D", "died"], affine: ["A", "became affine"], saturated: ["S", "saturated"] };

// Undoes differences; null where there is no score.
function summed(differences) {
  let sum = 0;
  return differences.map((difference) => (difference == null ? null : (sum += difference) / UNIT));
}

const asShares = (packed, length) => unpacked(packed, length).map((value) => (value == null ? null : value / UNIT));

// The reason at every step, from the places where it changes.
function reasonsOf(changes, texts, length) {
  const found = Array(length).fill("");
  changes.forEach(([place, number], change) => found.fill(texts[number], place, changes[change + 1]?.[0] ?? length));
  return found;
}

function trackOf(packed, number, follow) {
  const { steps, shared, ends, all } = packed;
  const length = steps.length;
  const kinds = namesOf(packed.kinds, ends.length);
  const sites = pathsOf({ shared, ends }).map((name, place) => {
    const score = summed(packed.score[place]);
    const [below, above] = [packed.below, packed.above].map((columns) => asShares(columns[place], length));
    return {
      number: place,
      name,
      kind: kinds[place],
      score,
      low: score.map((value, step) => (value == null || below[step] == null ? null : value - below[step])),
      high: score.map((value, step) => (value == null || above[step] == null ? null : Math.min(1, value + above[step]))),
      dead: asShares(packed.dead[place], length),
      reasons: reasonsOf(packed.reasons[place], packed.reasonTexts, length),
      whole: all && summed(all.score[place]),
    };
  });
  const mean = steps.map((_, step) => d3.mean(sites, (site) => site.score[step]) ?? null);
  const events = packed.events.map(([step, site, what, text]) => ({ step, site: sites[site], what, text }));
  // A training that was killed leaves no end: it is under way only where somebody follows it.
  const state = packed.ended || (follow?.state === "under way" ? "under way" : "no end recorded");
  return { ...packed, number, sites, mean, events, state };
}

// The place of the measurement nearest to a step.
const nearestStep = (steps, step) => d3.bisectCenter(steps, step);

const asPercent = d3.format(".0%");

const intervalText = (site, step) =>
  site.low[step] == null ? "" : `95 % interval ${asScore(site.low[step])} to ${asScore(site.high[step])}`;

const describeMoment = (track, site, step) => [
  ["title", site.name],
  ["", `step ${asCount(track.steps[step])}, ${site.kind}`],
  ["value", `${SCORE_NAMES[track.estimator]} ${asScore(site.score[step])}`],
  ["", intervalText(site, step)],
  ["", site.dead[step] ? `${asPercent(site.dead[step])} of the channels do not vary` : ""],
  ["", site.reasons[step]],
  ...track.events.filter((event) => event.site === site && event.step === track.steps[step]).map(({ text }) => ["", text]),
];

// Borders between steps, half-way between them.
function bordersOf(steps) {
  if (steps.length < 2) return [steps[0] - 0.5, steps[0] + 0.5];
  const middles = d3.pairs(steps, (one, other) => (one + other) / 2);
  return [2 * steps[0] - middles[0], ...middles, 2 * steps.at(-1) - middles.at(-1)];
}

// Where both charts draw, so that their steps are in line.
function frameOf(track, width) {
  const longest = Math.max(6, Math.min(28, Math.floor((0.34 * width) / LETTER)));
  const widest = d3.max(track.sites, ({ name }) => Math.min(longest, Array.from(name).length)) ?? 0;
  const borders = bordersOf(track.steps);
  return {
    width,
    longest,
    left: Math.max(46, Math.ceil(widest * LETTER) + 12),
    right: 14,
    steps: track.steps,
    borders,
    domain: [borders[0], borders.at(-1)],
  };
}

function stepAxis({ width, steps, domain, left, right }) {
  const wanted = Math.max(2, (width - left - right) / 90);
  const ticks = steps.length < 2 ? steps : d3.ticks(steps[0], steps.at(-1), wanted).filter(Number.isInteger);
  return { type: "linear", domain, ticks, tickFormat: asShortCount };
}
