"""Models as programs, and what is assumed of those whose layout on the IPUs is not published."""
