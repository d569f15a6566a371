"""Models whose layout on the IPUs is not published: programs and what is assumed of them."""
