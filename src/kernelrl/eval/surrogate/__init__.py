"""The learned surrogate: from a candidate's text it predicts compile, correct and speedup, before hardware is asked."""
