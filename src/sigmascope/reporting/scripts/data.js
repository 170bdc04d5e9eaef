// The document of the page, unpacked; document.py packs it.

function unpacked(packed, length) {
  return Array.isArray(packed) ? packed : Array(length).fill(packed);
}

function namesOf({ names, of }, length) {
  return unpacked(of, length).map((number) => names[number]);
}

function pathsOf({ shared, ends }) {
  let before = [];
  return ends.map((end, number) => {
    before = [...before.slice(0, shared[number]), ...end]; // by characters, as Python counts them
    return before.join("");
  });
}

function sitesOf({ count, sites }, by) {
  const kinds = namesOf(sites.kind, count);
  const places = namesOf(sites.place, count);
  const columns = ["call", "score", "std", "population", "half", "batches", "n", "dim"].map((name) => [
    name,
    unpacked(sites[name], count),
  ]);
  return pathsOf(sites).map((path, number) => {
    const site = { number, path, kind: kinds[number], place: places[number], reason: sites.reasons[number] ?? "" };
    for (const [name, values] of columns) site[name] = values[number];
    [site.shown, site.bar] = by === "population" ? [site.population, site.half] : [site.score, site.std];
    site.name = (path || `forward.${site.kind}`) + (site.call ? `#${site.call}` : "");
    return site;
  });
}

function readDocument() {
  const { content } = JSON.parse(byId("data").textContent);
  const networks = content.networks.map((network, number) => ({
    ...network,
    number,
    by: content.by,
    ranked: content.ranked,
    sites: sitesOf(network, content.by),
  }));
  return { ...content, networks, tracks: content.tracks.map((track, number) => trackOf(track, number, content.follow)) };
}

const batchesOf = ({ batches }) => `${asCount(batches)} ${batches === 1 ? "batch" : "batches"}`;

const withBar = (value, bar, show = asScore) => (bar == null ? show(value) : `${show(value)} ± ${show(bar)}`);

const SCORE_NAMES = { published: "affinity score", population: "population score" };

// Both scores are told, the one that is compared first.
const describeSite = (network, site) => [
  ["title", site.name],
  ["", `${network.name}, call ${site.number + 1} of ${network.count}`],
  ["", `${site.kind}, width ${site.dim}`],
  ...(network.by === "population"
    ? [...populationLines(site, "value"), ...publishedLines(site, "", "published")]
    : [...publishedLines(site, "value", "score"), ...(site.population == null ? [] : populationLines(site, ""))]),
  ["", site.reason],
];

const publishedLines = (site, look, name) => [
  [look, look || site.score != null ? `${name} ${withBar(site.score, site.std)}` : ""],
  ["", site.std == null ? "" : `std over ${batchesOf(site)}`],
];

const populationLines = (site, look) => [
  [look, `population score ${withBar(site.population, site.half)}`],
  ["", site.half == null ? "" : "95 % interval"],
];

const listSome = (names, most) =>
  names.length > most ? `${listed(names.slice(0, most))} and ${names.length - most} more` : listed(names);
