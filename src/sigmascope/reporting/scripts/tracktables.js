// The numbers of a training as tables and as a CSV file.

// Tables are built when opened; they stay open when another site or training is chosen.
function createTrackTables(view) {
  const home = byId("training-tables");
  const open = new Set([...home.querySelectorAll("details[open]")].map(({ id }) => id));
  const { track, site } = view;
  const tables = [
    lazyDetails(element("summary", {}, "Sites as a table"), () => [trackedTable(track)], { id: "tracked-sites" }),
    lazyDetails(
      element("summary", {}, "Measurements of ", named(site.name), " as a table"),
      () => [historyTable(track, site)],
      { id: "tracked-steps" },
    ),
  ];
  const save = buttonOf("Download the scores as CSV", () => download(`${track.name}.csv`, csvOf(track)));
  home.replaceChildren(...tables, element("p", { class: "tools" }, save));
  for (const details of tables) details.open = open.has(details.id);
}

function trackedTable(track) {
  const heads = ["site", "activation", "first", "last", "change", "lowest", "highest", "dead channels"];
  const rows = track.sites.map((site) => {
    const scores = site.whole ?? site.score;
    const [first, last] = [scores[0], scores.at(-1)];
    const change = first == null || last == null ? "–" : d3.format("+.4f")(last - first);
    const dead = site.dead.at(-1);
    return [
      named(site.name),
      named(site.kind),
      asScore(first),
      asScore(last),
      change,
      asScore(d3.min(scores) ?? null),
      asScore(d3.max(scores) ?? null),
      dead == null ? "–" : asPercent(dead),
    ];
  });
  const caption = "Scores at the first and the last step; sites in order of execution.";
  return framed("Sites over training", tableOf(caption, heads.map((text, place) => ({ text, numeric: place > 1 })), rows));
}

function historyTable(track, site) {
  const heads = ["step", "score", "95 % interval", "dead channels", "remark"].map((text, place) => ({ text, numeric: place < 4 }));
  const drawn = new Map(track.steps.map((step, place) => [step, place]));
  const rows = (track.all?.steps ?? track.steps).map((step, number) => {
    const place = drawn.get(step);
    const score = asScore(site.whole ? site.whole[number] : site.score[number]);
    if (place === undefined) return [asCount(step), score, "", "", ""];
    const interval = site.low[place] == null ? "–" : `${asScore(site.low[place])} – ${asScore(site.high[place])}`;
    const dead = site.dead[place] == null ? "–" : asPercent(site.dead[place]);
    return [asCount(step), score, interval, dead, named(site.reasons[place])];
  });
  return framed(`Measurements of ${site.name}`, tableOf("All measurements of the chosen site on this page.", heads, rows));
}

// One row for each step, one column for each site.
function csvOf(track) {
  const rows = (track.all?.steps ?? track.steps).map((step, number) => [
    step,
    ...track.sites.map((site) => (site.whole ?? site.score)[number]),
  ]);
  return csvLines([["step", ...track.sites.map(({ name }) => name)], ...rows]);
}
