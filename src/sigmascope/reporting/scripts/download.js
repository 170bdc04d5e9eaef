// The numbers of the page as files. They are written here, so that a page opened from a disk has them too.

// A text that a spreadsheet would take for a formula begins with an apostrophe.
function cellOf(value) {
  if (value == null) return "";
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const csvLines = (rows) => rows.map((row) => `${row.map(cellOf).join(",")}\n`).join("");

function download(name, text, type = "text/csv") {
  const address = URL.createObjectURL(new Blob([text], { type }));
  element("a", { href: address, download: name.replace(/[^\w.-]+/g, "_") }).click();
  URL.revokeObjectURL(address);
}

const metricsOf = ({ metrics, count }, number) =>
  Object.fromEntries(Object.entries(metrics).map(([name, packed]) => [name, unpacked(packed, count)[number]]));

// One row for each site of each network.
function sitesCsv(networks) {
  const metrics = [...new Set(networks.flatMap((network) => Object.keys(network.metrics)))];
  const heads = ["network", "call", "site", "activation", "width", "samples", "batches", "score", "std"];
  const rows = networks.flatMap((network) =>
    network.sites.map((site) => {
      const values = metricsOf(network, site.number);
      const { name, kind, dim, n, batches, score, std, population, half, reason } = site;
      return [network.name, site.number + 1, name, kind, dim, n, batches, score, std, population, half]
        .concat(metrics.map((metric) => values[metric] ?? null), reason);
    }),
  );
  return csvLines([[...heads, "population", "population half width 95 %", ...metrics, "remark"], ...rows]);
}

function siteRecord(network, site) {
  const detail = detailOf(network, site);
  const { name, path, call, kind, place, dim, n, batches, score, std, population, half, reason } = site;
  const known = { name, path, call, kind, place, dim, n, batches, score, std, population, population_half_width: half, reason };
  const more = detail && { ...detail, scores: detail.scores.map((one) => one.score), histogram: network.details.histogram[site.number] };
  return { ...known, metrics: metricsOf(network, site.number), ...more };
}

function networkRecord(network) {
  const { name, parameters, samples, batches, summary, halves, population, facts, coverage } = network;
  const sites = network.sites.map((site) => siteRecord(network, site));
  return { name, parameters, samples, batches, summary, half_widths: halves, population, facts, coverage, sites };
}

function distanceRecord(networks, data) {
  if (!data) return null;
  const names = data.networks.map((number) => networks[number].name);
  const matrix = names.map((_, row) =>
    names.map((__, column) => (row === column ? 0 : data.rows[Math.max(row, column)][Math.min(row, column)])));
  return { by: "dynamic time warping", names, matrix };
}

function trackRecord({ name, file, estimator, ended, steps, sites, events }) {
  const known = sites.map(({ name: site, kind, score, low, high, dead }) => ({ site, kind, score, low, high, dead }));
  return { name, file, estimator, ended, steps, sites: known, events: events.map(({ site, ...event }) => ({ ...event, site: site?.name ?? null })) };
}

// Everything that the page shows, with full names and lists. Scores of sites have four decimals.
function pageJson({ sigmascope, data, by, networks, distances, settings, missing, tracks }) {
  const content = {
    format: "sigmascope report data",
    sigmascope,
    data,
    compared: by ?? null,
    networks: networks.map(networkRecord),
    distances: distanceRecord(networks, distances),
    settings: settings ?? null,
    missing,
    tracks: tracks.map(trackRecord),
  };
  return JSON.stringify(content, null, 1);
}

// The buttons below the cards.
function createDownloads(content) {
  const buttons = [buttonOf("Download JSON", () => download("sigmascope-report.json", pageJson(content), "application/json"))];
  if (content.networks.length) buttons.unshift(buttonOf("Download CSV", () => download("sigmascope-sites.csv", sitesCsv(content.networks))));
  byId("take").prepend(...buttons);
}
