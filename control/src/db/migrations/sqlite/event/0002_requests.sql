-- Which call caused an event: the id that its answer and the log name.
ALTER TABLE events ADD COLUMN request TEXT;
