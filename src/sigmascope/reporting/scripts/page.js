// Assembles the page.

// Sections without content are left out.
function createFrame({ networks, tracks, sigmascope }) {
  byId("colophon").textContent = `Written by sigmascope ${sigmascope}. This page is self-contained and loads nothing.`;
  if (!tracks.length) hideSections(["training"]);
  if (networks.length) return;
  hideSections(["signatures", "networks", "distances", "densities", "sites", "settings"]);
  byId("cards").hidden = true;
  const title = tracks.length === 1 ? [named(shortened(tracks[0].name, 60)), " over training"] : ["Non-linearity over training"];
  byId("title").replaceChildren(...title);
  const step = tracks.length === 1 && tracks[0].steps.length ? `, step ${asCount(tracks[0].steps.at(-1))}` : "";
  document.title = `${listSome(tracks.map(({ name }) => shortened(name, 40)), 2)}${step} – sigmascope`;
}

function hideSections(ids) {
  for (const id of ids) {
    byId(id).closest("section").hidden = true;
    document.querySelector(`nav a[href="#${id}"]`).hidden = true;
  }
}

// Returns what must be drawn again for another width.
function createNetworks(content) {
  const { networks } = content;
  const choice = createChoice(networks);
  byId("cards").replaceChildren(...cardsOf(content));
  byId("estimator").textContent = estimatorText(content);
  createRemarks(content);
  createPicker(byId("picker"), networks, choice);
  createSiteTables(networks);
  createSettings(networks, content.settings);

  let address = null; // made last, of what it tells
  const changed = () => address?.write();
  const table = createNetworkTable(networks, changed);
  const signatures = createSignatureChart(networks, choice, ({ network, site }) => detail.open(network, site));
  const detail = createDetail(signatures, () => {
    if (detail.current()) follow(detail.current().network, detail.current().site);
    changed();
  });
  const drawDensityChart = createDensityChart(networks, content.densities, choice);
  const drawDistanceChart = createDistanceChart(networks, content.distances);
  choice.onChange(signatures.draw);
  choice.onChange(drawDensityChart);
  const follow = createWalk(networks, choice, signatures, detail.open);
  choice.reset();
  drawDistanceChart();
  choice.onChange(changed);
  byId("depth").addEventListener("change", changed);
  const parts = { networks: choicePart(networks, choice), depth: depthPart(), sort: sortPart(table), site: sitePart(networks, detail) };
  address = createAddress(parts);
  address.apply();
  createCopy();
  return [signatures.draw, drawDensityChart, drawDistanceChart, detail.draw];
}

function start() {
  const content = readDocument();
  createTheme();
  createFrame(content);
  const draws = [];
  createDownloads(content);
  if (content.networks.length) draws.push(...createNetworks(content));
  if (content.tracks.length) {
    const { view, draw } = createTraining(content.tracks);
    draws.push(draw);
    if (content.follow) createFollowing(content.follow, view);
  }
  onWidth(() => draws.forEach((draw) => draw()));
  addEventListener("hashchange", openTarget);
  openTarget();
}

start();
