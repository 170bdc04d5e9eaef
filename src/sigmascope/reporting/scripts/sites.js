// The tables of sites: built when opened, because there may be thousands of rows.

function lazyDetails(summary, build, attributes = {}) {
  const details = element("details", attributes, summary);
  details.addEventListener("toggle", () => details.append(...build()), { once: true });
  return details;
}

function siteTable(network) {
  const metrics = Object.entries(network.metrics).map(([name, packed]) => ({ name, values: unpacked(packed, network.count) }));
  const spread = network.sites.some((site) => site.std != null);
  const population = network.sites.some((site) => site.population != null);
  const remarks = network.sites.some((site) => site.reason);
  const heads = [
    { text: "site" },
    { text: "call", numeric: true },
    { text: "activation" },
    { text: "width", numeric: true },
    { text: "samples", numeric: true },
    { text: "score", numeric: true },
    ...(spread ? [{ text: "± std", numeric: true }] : []),
    ...(population ? [{ text: "population, 95 %", numeric: true }] : []),
    ...metrics.map(({ name }) => ({ text: name, numeric: true })),
    ...(remarks ? [{ text: "remark" }] : []),
  ];
  const rows = network.sites.map((site) => [
    element("a", { href: `#site=${network.number},${site.number + 1}` }, named(site.name)),
    String(site.number + 1),
    named(site.kind),
    site.dim ? asCount(site.dim) : "–",
    site.n ? asCount(site.n) : "–",
    asScore(site.score),
    ...(spread ? [asScore(site.std)] : []),
    ...(population ? [withBar(site.population, site.half)] : []),
    ...metrics.map(({ values }) => asNumber(values[site.number])),
    ...(remarks ? [named(site.reason)] : []),
  ]);
  const notes = [
    "Sites in order of execution",
    ...(spread ? ["std is the standard deviation over batches"] : []),
    ...(population ? ["a population score has half the width of its 95 % interval"] : []),
  ];
  const caption = `${notes.join("; ")}.`;
  return framed(`Sites of ${network.name}`, tableOf(caption, heads, rows));
}

function skippedTable({ name, coverage }) {
  const rows = coverage.skipped.map(([path, call, kind, reason]) => [
    named((path || `forward.${kind}`) + (call ? `#${call}` : "")),
    named(kind),
    named(reason),
  ]);
  return framed(
    `Skipped calls of ${name}`,
    tableOf(
      "Skipped: calls for which no score is defined.",
      [{ text: "call" }, { text: "activation" }, { text: "reason" }],
      rows,
    ),
  );
}

const listOf = (texts) => element("ul", {}, ...texts.map((text) => element("li", {}, named(text))));

// The layer with the lowest score, and those that cannot be told apart from it.
function lowestSentence(network) {
  const [first, ...tied] = network.lowest.map((number) => network.sites[number]);
  const names = tied.map((site) => site.name);
  return element(
    "p",
    { class: "lowest" },
    `Most non-linear layer${tied.length ? ", tied" : ""}: `,
    named(first.name),
    ` (${rankedScore(network, first)})`,
    ...(tied.length ? [" with ", named(listSome(names, 8)), "; the intervals of the differences include 0"] : []),
    ".",
  );
}

function siteContent(network) {
  const { coverage, certified } = network;
  const proofs = Object.entries(certified).map(([proof, count]) => `${proof} ${asCount(count)}`);
  return [
    ...(network.lowest.length ? [lowestSentence(network)] : []),
    siteTable(network),
    ...(proofs.length
      ? [element("p", { class: "quiet" }, "Transport plans, by how their optimality was proved: ", named(listed(proofs)), ".")]
      : []),
    ...(coverage.skipped.length ? [skippedTable(network)] : []),
    ...(coverage.never_called.length ? [element("p", {}, "Activation modules that were never called:"), listOf(coverage.never_called)] : []),
    ...(coverage.notes.length ? [element("p", {}, "Notes:"), listOf(coverage.notes)] : []),
  ];
}

function createSiteTables(networks) {
  const all = networks.map((network) => {
    const whole = network.coverage.scored === network.coverage.seen && !network.coverage.never_called.length;
    const summary = element(
      "summary",
      {},
      named(network.name),
      element("span", { class: whole ? "quiet" : "lacking" }, network.coverage.text),
    );
    return lazyDetails(summary, () => siteContent(network), { id: `sites-${network.number}` });
  });
  byId("site-tables").replaceChildren(...all);
}

// A link to a network's sites opens them.
function openTarget() {
  const target = byId(location.hash.slice(1));
  if (!(target instanceof HTMLDetailsElement)) return;
  target.open = true;
  target.querySelector("summary").focus();
  target.scrollIntoView({ block: "start" });
}
