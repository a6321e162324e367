-- What happens to the rows, as the database itself sees it: every move with its transaction, and at each COMMIT whether
-- counters and rows agree. Nothing of it is in a database that anybody else uses.

CREATE SCHEMA witness;

CREATE TABLE witness.history (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tx     BIGINT NOT NULL,
    at     BIGINT NOT NULL,
    body   JSONB NOT NULL
);

CREATE FUNCTION witness.note(body JSONB) RETURNS void LANGUAGE sql AS $$
    INSERT INTO witness.history (tx, at, body)
    VALUES (pg_current_xact_id()::text::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, body)
$$;

CREATE FUNCTION witness.row_moves() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' OR OLD.state <> NEW.state THEN
        PERFORM witness.note(jsonb_build_object(
            'what', 'row', 'wave', NEW.wave,
            'rollout', (SELECT id FROM public.rollouts WHERE number = NEW.rollout),
            'node', (SELECT id FROM public.nodes WHERE number = NEW.node),
            'pool', (SELECT id FROM public.pools WHERE number = NEW.pool),
            'was', CASE WHEN TG_OP = 'UPDATE' THEN OLD.state END, 'now', NEW.state));
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER witness AFTER INSERT OR UPDATE ON rollout_rows FOR EACH ROW EXECUTE FUNCTION witness.row_moves();

CREATE FUNCTION witness.late_moves() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' OR OLD.state <> NEW.state OR OLD.attempt <> NEW.attempt THEN
        PERFORM witness.note(jsonb_build_object(
            'what', 'late', 'rollout', NEW.rollout_id, 'node', NEW.node_id, 'pool', NEW.pool_id,
            'was', CASE WHEN TG_OP = 'UPDATE' THEN OLD.state END, 'now', NEW.state));
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER witness AFTER INSERT OR UPDATE ON rollout_late FOR EACH ROW EXECUTE FUNCTION witness.late_moves();

CREATE FUNCTION witness.head(r rollouts) RETURNS JSONB LANGUAGE sql AS $$
    SELECT jsonb_build_object('state', r.state, 'wave', r.wave, 'revision', r.revision, 'soak', r.soak_ms,
                              'settled', r.wave_settled_at)
$$;

CREATE FUNCTION witness.head_moves() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM witness.note(jsonb_build_object(
        'what', 'head', 'rollout', NEW.id, 'was', CASE WHEN TG_OP = 'UPDATE' THEN witness.head(OLD) END,
        'now', witness.head(NEW)));
    RETURN NULL;
END $$;
CREATE TRIGGER witness AFTER INSERT OR UPDATE ON rollouts FOR EACH ROW EXECUTE FUNCTION witness.head_moves();

CREATE FUNCTION witness.event_comes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM witness.note(jsonb_build_object(
        'what', 'event', 'position', NEW.position, 'kind', NEW.type, 'subject', NEW.subject));
    RETURN NULL;
END $$;
CREATE TRIGGER witness AFTER INSERT ON events FOR EACH ROW EXECUTE FUNCTION witness.event_comes();

-- At COMMIT, so that what is counted is what the transaction leaves.
CREATE FUNCTION witness.places(pool TEXT) RETURNS void LANGUAGE sql AS $$
    SELECT witness.note(jsonb_build_object(
        'what', 'places', 'pool', p.id, 'disrupted', p.disrupted, 'nodes', p.nodes, 'budget', p.budget_ppm,
        'counted', (SELECT count(DISTINCT d.node_id) FROM public.disruptions d WHERE d.pool_id = p.id),
        'countedNodes', (SELECT count(*) FROM public.nodes n WHERE n.pool_id = p.id AND n.removed_at IS NULL)))
    FROM public.pools p WHERE p.id = pool
$$;
CREATE FUNCTION witness.places_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        PERFORM witness.places(OLD.pool_id);
    ELSE
        PERFORM witness.places(NEW.pool_id);
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER witness AFTER INSERT OR DELETE ON disruptions DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION witness.places_change();

CREATE FUNCTION witness.counts() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    said TEXT := concat_ws(' ', NEW.pending, NEW.upgrading, NEW.succeeded, NEW.failed, NEW.skipped, NEW.rolling_back,
                           NEW.rolled_back);
    counted TEXT;
BEGIN
    -- Only the last of several changes of one transaction is what it leaves.
    PERFORM 1 FROM public.rollout_waves w WHERE w.rollout_id = NEW.rollout_id AND w.wave = NEW.wave
        AND concat_ws(' ', w.pending, w.upgrading, w.succeeded, w.failed, w.skipped, w.rolling_back, w.rolled_back) = said;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    SELECT concat_ws(' ', count(*) FILTER (WHERE r.state = 'pending'), count(*) FILTER (WHERE r.state = 'upgrading'),
                     count(*) FILTER (WHERE r.state = 'succeeded'), count(*) FILTER (WHERE r.state = 'failed'),
                     count(*) FILTER (WHERE r.state = 'skipped'), count(*) FILTER (WHERE r.state = 'rolling-back'),
                     count(*) FILTER (WHERE r.state = 'rolled-back'))
        INTO counted FROM public.rollout_rows r JOIN public.rollouts o ON o.number = r.rollout
        WHERE o.id = NEW.rollout_id AND r.wave = NEW.wave;
    IF counted <> said THEN
        PERFORM witness.note(jsonb_build_object(
            'what', 'miscount', 'rollout', NEW.rollout_id, 'wave', NEW.wave, 'said', said, 'counted', counted));
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER witness AFTER INSERT OR UPDATE ON rollout_waves DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION witness.counts();
