// The page of one report.

/** How many replicas there are, and how they are divided. */
function replicasText({ replicas, instances }) {
  const division =
    instances > 1 ? ` (${replicas / instances} in each of ${instances} instances)` : "";
  return `${replicas} replica(s)${division}`;
}

function reportTitles(model) {
  const { summary, target, program } = model;
  const verdict = summary.fits
    ? make("span.pill.good", {}, "fits")
    : make("span.pill.bad", {}, "does not fit");
  const where =
    `${replicasText(target)} of ${target.ipus_per_replica} IPU(s), ${target.title}, ` +
    `${whole(target.tiles_per_ipu)} tiles at ${whole(target.clock / 1e6)} MHz`;
  return [
    make("h1", { title: program.name }, program.name),
    verdict,
    make("span.target", { title: where }, where),
  ];
}

function showReport() {
  const model = new Model(readData());
  buildPage({
    titles: reportTitles(model),
    views: [
      summaryView,
      layersView,
      operationsView,
      programView,
      timelineView,
      memoryView,
      livenessView,
      tensorsView,
      optionsView,
    ].map((view) => view(model)),
    search: searchField(model),
    detail: detailPanel(model),
  });
}
