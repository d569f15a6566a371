"""Code that takes the place of what stock TensorFlow, Keras and Python dropped."""
