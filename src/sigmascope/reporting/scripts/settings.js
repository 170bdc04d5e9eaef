// The settings and versions, and what a reader must know about them before comparing.

function createSettings(networks, { shared, columns, rows }) {
  const text = networks.length > 1 ? "Shared by all networks." : "Of this measurement.";
  const pairs = shared.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, named(value))));
  const tables = [element("p", { class: "quiet" }, text), element("dl", { class: "pairs" }, ...pairs)];
  if (columns.length) {
    const heads = [{ text: "network" }, ...columns.map((name) => ({ text: name }))];
    const body = rows.map((row, number) => [named(networks[number].name), ...row.map((value) => named(value))]);
    tables.push(framed("Settings that differ", tableOf("Different from network to network.", heads, body)));
  }
  byId("setting-tables").replaceChildren(...tables);
}

function remarksOf({ networks, settings, companionsLeftOut }) {
  const unscored = networks.filter((network) => !network.coverage.scored);
  return [
    settings.mixed.length &&
      `The networks were measured with different settings (${listed(settings.mixed)}): compare their scores with care.`,
    unscored.length && `Without any score, and so not compared: ${listed(unscored.map((network) => network.name))}.`,
    companionsLeftOut && "The companion metrics are left out to keep this page small; the signatures have them.",
  ].filter(Boolean);
}

function createRemarks(content) {
  byId("remarks").replaceChildren(...remarksOf(content).map((text) => element("p", { class: "notice" }, named(text))));
}
