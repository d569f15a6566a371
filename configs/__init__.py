"""Options that users set, and figures of the chips and the machine: pure data, no TensorFlow."""
