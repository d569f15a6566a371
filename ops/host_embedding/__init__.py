"""Host embeddings: tables on the host that the device looks up rows in and trains."""
