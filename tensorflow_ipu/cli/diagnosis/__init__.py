"""What `tensorflow-ipu doctor` looks at; nothing here imports TensorFlow but the probe."""
