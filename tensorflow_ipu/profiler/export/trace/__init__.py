"""What a trace shows, as tracks of slices for all formats: the chip modelled, the host measured."""
