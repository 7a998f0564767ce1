"""rlx: a small ML compiler."""
