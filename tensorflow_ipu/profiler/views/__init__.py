"""What a report knows, as tables and trees: for text, for the HTML page, for programs."""
