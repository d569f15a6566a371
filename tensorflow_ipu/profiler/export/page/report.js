// The page of one report.

/** What stands in the bar. */
function reportTitles(model) {
  const { summary, target, program } = model;
  const verdict = summary.fits
    ? make("span.pill.good", {}, "fits")
    : make("span.pill.bad", {}, "does not fit");
  const where = `${machineText(target)}, ${whole(target.tiles_per_ipu)} tiles at ${whole(target.clock / 1e6)} MHz`;
  return [
    make("h1", { title: program.name }, program.name),
    verdict,
    make("span.target", { title: where }, where),
  ];
}

/** Shows the page. */
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
      rooflineView,
      graphView,
    ].map((view) => view(model)),
    search: searchField(model),
    detail: detailPanel(model),
  });
}
