"""Pages and views about braze and its programs: `journey`, `knobs`. Nothing below imports from here."""
