"""The command line tool `tensorflow-ipu`: reads reports, plans again, compares. No TensorFlow."""
