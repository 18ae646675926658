//! The statements of each database.

/// A kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// PostgreSQL.
    Postgres,
    /// MySQL and MariaDB.
    MySql,
    /// SQLite.
    Sqlite,
}

/// Keys are compared byte by byte in all of them. Texts of MySQL ignore case by default, and with most binary collations blanks at the
/// end, and would take two messages for one.
impl Dialect {
    /// The statements that create the tables, where they are missing.
    ///
    /// | Table | Holds |
    /// |---|---|
    /// | `redstart_inbox` | the messages that have taken effect |
    /// | `redstart_transactions` | the local transactions of transactional messages, and the fences of those that were given up |
    /// | `redstart_outbox` | messages that wait to be sent |
    /// | `redstart_relay` | the row that the relay at work has locked |
    pub fn tables(self) -> &'static [&'static str] {
        match self {
            Dialect::Postgres => &[
                "CREATE TABLE IF NOT EXISTS redstart_inbox (consumer_group TEXT COLLATE \"C\" NOT NULL, message_key TEXT COLLATE \"C\" NOT NULL, topic TEXT NOT NULL, broker TEXT NOT NULL, queue BIGINT NOT NULL, queue_offset BIGINT NOT NULL, claimed_at BIGINT NOT NULL, PRIMARY KEY (consumer_group, message_key))",
                "CREATE INDEX IF NOT EXISTS redstart_inbox_claimed_at ON redstart_inbox (claimed_at)",
                "CREATE TABLE IF NOT EXISTS redstart_transactions (producer_group TEXT COLLATE \"C\" NOT NULL, message_id TEXT COLLATE \"C\" NOT NULL, committed BIGINT NOT NULL, decided_at BIGINT NOT NULL, PRIMARY KEY (producer_group, message_id))",
                "CREATE TABLE IF NOT EXISTS redstart_outbox (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, message TEXT NOT NULL)",
                "CREATE TABLE IF NOT EXISTS redstart_relay (id BIGINT PRIMARY KEY)",
                "INSERT INTO redstart_relay (id) VALUES (1) ON CONFLICT DO NOTHING",
            ],
            Dialect::MySql => &[
                "CREATE TABLE IF NOT EXISTS redstart_inbox (consumer_group VARBINARY(255) NOT NULL, message_key VARBINARY(1024) NOT NULL, topic VARBINARY(255) NOT NULL, broker VARBINARY(255) NOT NULL, queue BIGINT NOT NULL, queue_offset BIGINT NOT NULL, claimed_at BIGINT NOT NULL, PRIMARY KEY (consumer_group, message_key), INDEX redstart_inbox_claimed_at (claimed_at)) ENGINE=InnoDB",
                "CREATE TABLE IF NOT EXISTS redstart_transactions (producer_group VARBINARY(255) NOT NULL, message_id VARBINARY(1024) NOT NULL, committed BIGINT NOT NULL, decided_at BIGINT NOT NULL, PRIMARY KEY (producer_group, message_id)) ENGINE=InnoDB",
                "CREATE TABLE IF NOT EXISTS redstart_outbox (id BIGINT AUTO_INCREMENT PRIMARY KEY, message LONGTEXT NOT NULL) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4",
                "CREATE TABLE IF NOT EXISTS redstart_relay (id BIGINT PRIMARY KEY) ENGINE=InnoDB",
                "INSERT IGNORE INTO redstart_relay (id) VALUES (1)",
            ],
            Dialect::Sqlite => &[
                "CREATE TABLE IF NOT EXISTS redstart_inbox (consumer_group TEXT NOT NULL, message_key TEXT NOT NULL, topic TEXT NOT NULL, broker TEXT NOT NULL, queue INTEGER NOT NULL, queue_offset INTEGER NOT NULL, claimed_at INTEGER NOT NULL, PRIMARY KEY (consumer_group, message_key)) WITHOUT ROWID",
                "CREATE INDEX IF NOT EXISTS redstart_inbox_claimed_at ON redstart_inbox (claimed_at)",
                "CREATE TABLE IF NOT EXISTS redstart_transactions (producer_group TEXT NOT NULL, message_id TEXT NOT NULL, committed INTEGER NOT NULL, decided_at INTEGER NOT NULL, PRIMARY KEY (producer_group, message_id)) WITHOUT ROWID",
                "CREATE TABLE IF NOT EXISTS redstart_outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, message TEXT NOT NULL)",
                "CREATE TABLE IF NOT EXISTS redstart_relay (id INTEGER PRIMARY KEY)",
                "INSERT OR IGNORE INTO redstart_relay (id) VALUES (1)",
            ],
        }
    }

    /// Reads nothing, and fails where a table is missing.
    pub(crate) const CHECKS: [&'static str; 4] = [
        "SELECT claimed_at FROM redstart_inbox WHERE 1 = 0",
        "SELECT committed FROM redstart_transactions WHERE 1 = 0",
        "SELECT id FROM redstart_outbox WHERE 1 = 0",
        "SELECT id FROM redstart_relay WHERE 1 = 0",
    ];

    /// Claims a key: no row, or in MySQL a violation of the primary key, means that it was claimed before. In PostgreSQL a violation
    /// would end the transaction; `INSERT IGNORE` of MySQL would hide other faults.
    pub(crate) fn claim(self) -> &'static str {
        match self {
            Dialect::Postgres => {
                "INSERT INTO redstart_inbox (consumer_group, message_key, topic, broker, queue, queue_offset, claimed_at) VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING"
            }
            Dialect::MySql => {
                "INSERT INTO redstart_inbox (consumer_group, message_key, topic, broker, queue, queue_offset, claimed_at) VALUES (?, ?, ?, ?, ?, ?, ?)"
            }
            Dialect::Sqlite => {
                "INSERT INTO redstart_inbox (consumer_group, message_key, topic, broker, queue, queue_offset, claimed_at) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
            }
        }
    }

    /// Finds a claim that this transaction has made.
    pub(crate) fn holds(self) -> &'static str {
        match self {
            Dialect::Postgres => {
                "SELECT claimed_at FROM redstart_inbox WHERE consumer_group = $1 AND message_key = $2"
            }
            Dialect::MySql | Dialect::Sqlite => {
                "SELECT claimed_at FROM redstart_inbox WHERE consumer_group = ? AND message_key = ?"
            }
        }
    }

    /// Removes claims of before a time, at most so many.
    pub(crate) fn sweep(self) -> &'static str {
        match self {
            // Rows that another sweeper has locked are its own.
            Dialect::Postgres => {
                "DELETE FROM redstart_inbox WHERE (consumer_group, message_key) IN (SELECT consumer_group, message_key FROM redstart_inbox WHERE claimed_at < $1 ORDER BY claimed_at LIMIT $2 FOR UPDATE SKIP LOCKED)"
            }
            Dialect::MySql => "DELETE FROM redstart_inbox WHERE claimed_at < ? ORDER BY claimed_at LIMIT ?",
            Dialect::Sqlite => {
                "DELETE FROM redstart_inbox WHERE (consumer_group, message_key) IN (SELECT consumer_group, message_key FROM redstart_inbox WHERE claimed_at < ? ORDER BY claimed_at LIMIT ?)"
            }
        }
    }

    pub(crate) fn forget(self) -> &'static str {
        match self {
            Dialect::Postgres => {
                "DELETE FROM redstart_inbox WHERE consumer_group = $1 AND topic = $2 AND broker = $3 AND queue = $4 AND queue_offset >= $5"
            }
            Dialect::MySql | Dialect::Sqlite => {
                "DELETE FROM redstart_inbox WHERE consumer_group = ? AND topic = ? AND broker = ? AND queue = ? AND queue_offset >= ?"
            }
        }
    }

    /// Notes what became of a transaction, unless that is known.
    pub(crate) fn record(self) -> &'static str {
        match self {
            Dialect::Postgres => {
                "INSERT INTO redstart_transactions (producer_group, message_id, committed, decided_at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING"
            }
            Dialect::MySql => {
                "INSERT INTO redstart_transactions (producer_group, message_id, committed, decided_at) VALUES (?, ?, ?, ?)"
            }
            Dialect::Sqlite => {
                "INSERT INTO redstart_transactions (producer_group, message_id, committed, decided_at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
            }
        }
    }

    pub(crate) fn decided(self) -> &'static str {
        match self {
            Dialect::Postgres => {
                "SELECT committed FROM redstart_transactions WHERE producer_group = $1 AND message_id = $2"
            }
            Dialect::MySql | Dialect::Sqlite => {
                "SELECT committed FROM redstart_transactions WHERE producer_group = ? AND message_id = ?"
            }
        }
    }

    pub(crate) fn enqueue(self) -> &'static str {
        match self {
            Dialect::Postgres => "INSERT INTO redstart_outbox (message) VALUES ($1)",
            Dialect::MySql | Dialect::Sqlite => "INSERT INTO redstart_outbox (message) VALUES (?)",
        }
    }

    /// SQLite has one writer at a time: a transaction that has begun is alone.
    pub(crate) fn lock_relay(self) -> &'static str {
        match self {
            Dialect::Postgres | Dialect::MySql => {
                "SELECT id FROM redstart_relay WHERE id = 1 FOR UPDATE SKIP LOCKED"
            }
            Dialect::Sqlite => "SELECT id FROM redstart_relay WHERE id = 1",
        }
    }

    pub(crate) fn oldest(self) -> &'static str {
        match self {
            Dialect::Postgres => "SELECT id, message FROM redstart_outbox ORDER BY id LIMIT $1",
            Dialect::MySql | Dialect::Sqlite => "SELECT id, message FROM redstart_outbox ORDER BY id LIMIT ?",
        }
    }

    pub(crate) fn remove(self) -> &'static str {
        match self {
            Dialect::Postgres => "DELETE FROM redstart_outbox WHERE id = $1",
            Dialect::MySql | Dialect::Sqlite => "DELETE FROM redstart_outbox WHERE id = ?",
        }
    }
}
