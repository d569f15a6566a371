"""What programs have done: reports made from Executables and trace events."""
