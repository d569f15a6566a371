"""Operations of the user's own: the ops and the expressions behind `custom_ops`."""
