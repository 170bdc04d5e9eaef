// The settings and versions, and warnings for readers who compare networks.

function createSettings(networks, { shared, columns, rows }) {
  const text = networks.length > 1 ? "Shared by all networks." : "Settings of this measurement.";
  const pairs = shared.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, named(value))));
  const tables = [element("p", { class: "quiet" }, text), element("dl", { class: "pairs" }, ...pairs)];
  if (columns.length) {
    const heads = [{ text: "network" }, ...columns.map((name) => ({ text: name }))];
    const body = rows.map((row, number) => [named(networks[number].name), ...row.map((value) => named(value))]);
    tables.push(framed("Settings that differ", tableOf("Settings that differ between networks.", heads, body)));
  }
  byId("setting-tables").replaceChildren(...tables);
}

// Which scores are compared, and which rank.
function estimatorText({ by, ranked, networks }) {
  if (by === "population") return "Compared are population scores, without the bias of a batch, with 95 % intervals.";
  const published = "Compared are published scores, means over batches.";
  if (!networks.some(({ population }) => population)) return published;
  const ranking = ranked === "population" ? " and rank what is most non-linear" : "";
  return `${published} Population scores, without the bias of a batch, stand beside them with 95 % intervals${ranking}.`;
}

function remarksOf({ networks, settings, companionsLeftOut }) {
  const unscored = networks.filter((network) => !hasScores(network));
  return [
    settings.mixed.length &&
      `The networks were measured with different settings (${listed(settings.mixed)}); compare their scores with care.`,
    unscored.length && `Not compared, because they have no score: ${listed(unscored.map((network) => network.name))}.`,
    networks.some(({ details }) => !details) && !companionsLeftOut &&
      "The details of single sites are left out to keep this page small; the signature files contain them.",
    companionsLeftOut && "The companion metrics and the details of single sites are left out to keep this page small; the signature files contain them.",
  ].filter(Boolean);
}

// The networks that are not on this page, and why; of a survey also the log, and how to try again.
function missingNotice(missing) {
  const items = missing.map(([name, reason, log, command]) =>
    element("li", {}, named(name), ": ", named(reason), ...attempt(log, command)));
  return element("div", { class: "notice", id: "missing" }, "Not shown, because they could not be measured:", element("ul", {}, ...items));
}

function attempt(log, command) {
  const parts = [];
  if (log) parts.push(element("details", {}, element("summary", {}, "Log"), element("pre", { tabindex: "0" }, log)));
  if (command) parts.push(element("p", {}, "Try it alone: ", element("code", {}, command)));
  return parts;
}

function createRemarks(content) {
  const notices = remarksOf(content).map((text) => element("p", { class: "notice" }, named(text)));
  if (content.missing.length) notices.unshift(missingNotice(content.missing));
  byId("remarks").replaceChildren(...notices);
}
