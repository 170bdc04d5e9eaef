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
  createNetworkTable(networks);
  createSiteTables(networks);
  createSettings(networks, content.settings);

  const signatures = createSignatureChart(networks, choice);
  const drawDensityChart = createDensityChart(networks, content.densities, choice);
  const drawDistanceChart = createDistanceChart(networks, content.distances);
  choice.onChange(signatures.draw);
  choice.onChange(drawDensityChart);
  createWalk(networks, choice, signatures);
  choice.reset();
  drawDistanceChart();
  return [signatures.draw, drawDensityChart, drawDistanceChart];
}

function start() {
  const content = readDocument();
  createTheme();
  createFrame(content);
  const draws = [];
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
