-- Labels that operators set, beside those that nodes say; `labels` is the two together, and the operators' win.
ALTER TABLE nodes ADD COLUMN said_labels TEXT COLLATE "C" NOT NULL DEFAULT '{}';
ALTER TABLE nodes ADD COLUMN set_labels TEXT COLLATE "C" NOT NULL DEFAULT '{}';
UPDATE nodes SET said_labels = labels;
