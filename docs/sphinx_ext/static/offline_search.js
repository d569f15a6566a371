// Browsers refuse to read other pages from a folder, so there the search shows titles only.
if (window.location.protocol === "file:") {
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
}
