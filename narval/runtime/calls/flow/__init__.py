"""Networks of dataflows carried out: what operators ask for outside, and room for what they keep."""
