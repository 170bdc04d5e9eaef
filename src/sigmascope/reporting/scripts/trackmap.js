// A heat map of the scores: a row for each site, a column for each step.

const LEVELS = 40; // colors; the numbers are in the note
const [ROW_LEAST, ROW_MOST, MAP_MOST] = [5, 20, 600]; // pixels
const MAP_TOP = 6;

const rowHeight = (count) => Math.max(ROW_LEAST, Math.min(ROW_MOST, MAP_MOST / count));

// The scores that the colors span: up to 1, and down to the lowest.
function spanOf(track) {
  const low = d3.min(track.sites, (site) => d3.min(site.score)) ?? 0;
  return [Math.min(0.9, Math.floor(low * 20) / 20), 1];
}

// The lower the score, the stronger the color.
const scoreColor = (level) => heat(level / (LEVELS - 1));

const levelOf = (score, [low, high]) =>
  Math.max(0, Math.min(LEVELS - 1, Math.round(((score - low) / (high - low)) * (LEVELS - 1))));

// One path for each color, with neighbors in one rectangle: thousands of elements would be slow.
function cellPaths(track, borders, x, row) {
  const span = spanOf(track);
  const paths = Array.from({ length: LEVELS + 1 }, () => []);
  const edges = borders.map((border) => x(border).toFixed(1));
  for (const site of track.sites) {
    const levels = site.score.map((score) => (score == null ? LEVELS : levelOf(score, span)));
    const [top, bottom] = [MAP_TOP + site.number * row, MAP_TOP + (site.number + 1) * row - (row > 9 ? 1 : 0)];
    for (let from = 0, to = 1; from < levels.length; from = to, to += 1) {
      while (levels[to] === levels[from]) to += 1;
      paths[levels[from]].push(`M${edges[from]} ${top.toFixed(1)}H${edges[to]}V${bottom.toFixed(1)}H${edges[from]}Z`);
    }
  }
  return paths.map((parts) => parts.join(""));
}

// Diagonal lines, which no color of a score has.
function hatching() {
  const size = { width: 5, height: 5, patternUnits: "userSpaceOnUse" };
  const pattern = svgPart("pattern", { id: "no-score", ...size, patternTransform: "rotate(45)" });
  pattern.append(svgPart("rect", { width: 1.4, height: 5, fill: "var(--quiet)" }));
  const defs = svgPart("defs", {});
  defs.append(pattern);
  return defs;
}

function eventMark({ what }, x, y, radius) {
  const group = svgPart("g", { transform: `translate(${x.toFixed(1)},${y.toFixed(1)})`, class: "event" });
  group.append(svgPart("circle", { r: radius }));
  if (radius < 5) return group;
  const letter = svgPart("text", { "text-anchor": "middle", dy: "0.36em" });
  letter.textContent = EVENTS[what]?.[0] ?? "!";
  group.append(letter);
  return group;
}

function mapText(track) {
  const lowest = d3.least(track.sites, (site) => d3.min(site.score) ?? Infinity);
  return [
    `Heat map of the ${SCORE_NAMES[track.estimator]}s of ${track.sites.length} sites`,
    `over steps ${track.steps[0]} to ${track.steps.at(-1)}.`,
    `The lowest is ${asScore(d3.min(lowest.score) ?? null)}, of ${lowest.name}.`,
    "Use the controls below the charts to inspect single measurements; the tables list all.",
  ].join(" ");
}

function drawTrackMap(track, site, frame) {
  const row = rowHeight(track.sites.length);
  const skip = Math.ceil(9.5 / row);
  const height = MAP_TOP + row * track.sites.length;
  const figure = figureOf(mapText(track), {
    width: frame.width,
    height: height + 8,
    marginTop: MAP_TOP,
    marginBottom: 8,
    marginLeft: frame.left,
    marginRight: frame.right,
    x: { ...stepAxis(frame), axis: null },
    y: {
      type: "band",
      domain: d3.range(track.sites.length),
      padding: 0,
      label: null,
      tickSize: 0,
      ticks: d3.range(0, track.sites.length, skip),
      tickFormat: (place) => shortened(track.sites[place].name, frame.longest),
    },
  });
  const x = figure.scale("x").apply;
  const paths = cellPaths(track, frame.borders, x, row);
  const fill = (level) => (level === LEVELS ? "url(#no-score)" : scoreColor(level));
  const cells = (d, level) => svgPart("path", { d, fill: fill(level), "shape-rendering": "crispEdges" });
  figure.append(
    hatching(),
    ...paths.flatMap((d, level) => (d ? [cells(d, level)] : [])),
    ...track.events
      .filter((event) => event.site)
      .map((event) => eventMark(event, x(event.step), MAP_TOP + (event.site.number + 0.5) * row, Math.min(6.5, row / 2))),
  );
  const top = MAP_TOP + site.number * row;
  figure.append(svgPart("rect", { x: frame.left - 4, y: top, width: 3, height: row - 1, fill: slotColor(0) }));
  return { figure, row, x };
}

function drawScoreRamp(track) {
  const [low, high] = spanOf(track);
  const places = d3.range(LEVELS);
  const width = (high - low) / LEVELS;
  return figureOf(`Color scale: strong at score ${low.toFixed(2)}, weak at ${high}.`, {
    width: 220,
    height: 34,
    marginTop: 0,
    marginBottom: 20,
    marginLeft: 12,
    marginRight: 12,
    color: { type: "identity" },
    x: { domain: [low, high], label: null, ticks: 4, tickSize: 4 },
    marks: [
      Plot.rectX(places, {
        x1: (level) => low + level * width,
        x2: (level) => low + (level + 1) * width,
        fill: scoreColor,
        insetRight: -0.5,
      }),
    ],
  });
}

function createTrackMap(stage, view) {
  const ring = svgPart("rect", { class: "ring" });
  const note = createNote(stage, ring);
  let drawn;

  function point(site, step) {
    const [left, right] = [0, 1].map((end) => drawn.x(drawn.frame.borders[step + end]));
    const top = MAP_TOP + site.number * drawn.row;
    const size = { x: Math.min(left, right - 3), y: top, width: Math.max(3, right - left), height: drawn.row };
    for (const [name, value] of Object.entries(size)) ring.setAttribute(name, value);
    note.show({ x: (left + right) / 2, y: top + drawn.row / 2 }, describeMoment(view.track, site, step));
  }

  function under(x, y) {
    const site = view.track.sites[Math.floor((y - MAP_TOP) / drawn.row)];
    const [left, right] = drawn.frame.domain.map((step) => drawn.x(step));
    if (!site || x < left || x > right) return null;
    return [site, Math.max(0, Math.min(view.track.steps.length - 1, d3.bisectRight(drawn.frame.borders, drawn.invert(x)) - 1))];
  }

  function draw(frame) {
    drawn = { ...drawTrackMap(view.track, view.site, frame), frame };
    drawn.invert = drawn.figure.scale("x").invert;
    followPointer(
      drawn.figure,
      (x, y) => {
        const found = under(x, y);
        if (found) point(...found);
        else note.hide();
      },
      note.hide,
    );
    drawn.figure.addEventListener("click", (event) => {
      const found = under(...d3.pointer(event, drawn.figure));
      if (found) view.select(...found);
    });
    note.mount(drawn.figure);
  }

  return { draw, point, hide: note.hide };
}
