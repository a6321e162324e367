//! A service's database, changed behind its back.

use std::path::Path;

use crate::postgres;

/// Says statements to the database of a folder, whichever it is. Those of the one mean nothing to the other.
pub(crate) fn say(dir: &Path, sqlite: &str, postgresql: &str) {
    if postgres::edit(dir, postgresql) {
        return;
    }
    let (url, statements) = (
        format!("sqlite://{}", dir.join("data/control.db").display()),
        sqlite.to_owned(),
    );
    // A thread and a runtime of its own: tests have one already.
    let said = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let pool = sqlx::SqlitePool::connect(&url).await.unwrap();
            sqlx::raw_sql(sqlx::AssertSqlSafe(statements))
                .execute(&pool)
                .await
                .unwrap();
            pool.close().await;
        });
    });
    said.join().unwrap();
}
