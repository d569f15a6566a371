"""Tables and trees of a report: for text, for the HTML page, for programs."""
