//! The same data and keys on PostgreSQL, on CRoaring and on the ImpactIndex, in one run.
//!
//! CRoaring gets the bitmaps of the keys and does the union alone.
//! PostgreSQL gets the pairs as a table with a btree on (purl, image), which answers from the index alone, and as one array
//! of purls an image with a GIN index; the better of the two counts. Keys come as a list of ids that were looked up
//! before: parsing and looking up are in our time and not in its.

use scheduler_benches::{Catalog, Keys, figure, median_ms, parse_keys, percentile, ratio, union};
use scheduler_impact_index::{Change, ImpactIndex, PutImage, Query, Thresholds, Want};
use scheduler_model::purl::Component;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const KEYS_LEN: u32 = 10_000;
const RUNS: usize = 5;
/// A query that takes longer is given up.
const QUERY_TIMEOUT: &str = "30s";
/// The script ends with this when there is no server to be had.
const SKIPPED: i32 = 3;

fn number(name: &str, default: u32) -> u32 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn main() -> Result<()> {
    let catalog = Catalog { purls: number("BENCH_PURLS", 1_000_000), images: number("BENCH_IMAGES", 100_000) };
    let folder = tempfile::tempdir()?;
    let ours = index(&catalog)?;
    union::all(&catalog, &ours)?;
    let Some(server) = Server::start(folder.path())? else { return Ok(()) };
    server.load(&catalog)?;
    for (name, keys) in [("popular", Keys::Popular), ("rare", Keys::Rare)] {
        let ranks = catalog.key_ranks(keys, KEYS_LEN);
        let json = catalog.keys_json(keys, KEYS_LEN);
        let selection = Catalog::one_in_ten();
        let resolve = || -> Result<u64> {
            let keys = parse_keys(&json)?;
            let query =
                Query { tenant: &Catalog::tenant(), selection: &selection, keys: Some(&keys), usage_only: false };
            Ok(ours.resolve(&query, Want::default()).candidates)
        };
        let found = resolve()?;
        let our_ms = median_ms(RUNS * 8, resolve);
        let list: Vec<String> = ranks.iter().map(u32::to_string).collect();
        let list = list.join(",");
        let btree = format!(
            "SELECT count(*) FROM (SELECT DISTINCT p.image FROM unnest('{{{list}}}'::int[]) k(purl) \
             JOIN pair p ON p.purl = k.purl JOIN image i ON i.id = p.image WHERE i.namespace = 'prod') found"
        );
        let gin = format!("SELECT count(*) FROM image WHERE namespace = 'prod' AND purls && '{{{list}}}'::int[]");
        let mut best = f64::INFINITY;
        for (way, sql) in [("btree", btree), ("gin", gin)] {
            match server.time(&sql, found)? {
                Some(ms) => {
                    figure(&format!("postgres-{way}-{name}"), ms, "ms");
                    best = best.min(ms);
                }
                None => eprintln!("postgres {way}, {name} keys: given up after {QUERY_TIMEOUT}"),
            }
        }
        figure(&format!("resolve-{name}-beside-postgres"), our_ms, "ms");
        ratio(&format!("postgres-vs-resolve-{name}"), best / our_ms);
    }
    Ok(())
}

fn index(catalog: &Catalog) -> Result<ImpactIndex> {
    let index = ImpactIndex::in_memory(Thresholds::default());
    let tenant = Catalog::tenant();
    for image in 0..catalog.images {
        let components: Vec<Component> = catalog.components(image);
        let (digest, place, used) =
            (Catalog::digest(image), Catalog::place(image), Catalog::used(image, components.len()));
        let positions: Vec<u32> = (0..).take(components.len()).collect();
        let put = PutImage { place: &place, components: &positions, used: used.as_deref() };
        index.apply(
            &components,
            &[Change { sequence: u64::from(image) + 1, timeline: 1, tenant: &tenant, digest: &digest, put: Some(put) }],
        )?;
    }
    Ok(index)
}

/// A PostgreSQL that lives as long as this.
struct Server {
    script: Child,
    socket: String,
}

impl Server {
    fn start(folder: &Path) -> Result<Option<Self>> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("compare/postgres.sh");
        let mut script = Command::new(script).arg(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut socket = String::new();
        if let Some(output) = &mut script.stdout {
            BufReader::new(output).read_line(&mut socket)?;
        }
        if socket.is_empty() {
            let status = script.wait()?;
            return if status.code() == Some(SKIPPED) { Ok(None) } else { Err("PostgreSQL did not start".into()) };
        }
        Ok(Some(Self { script, socket: socket.trim().to_owned() }))
    }

    fn psql(&self) -> Command {
        let mut psql = Command::new("psql");
        psql.args(["-h", &self.socket, "-U", "bench", "-d", "postgres", "-X", "-q", "-A", "-t"]);
        psql.args(["-v", "ON_ERROR_STOP=1"]);
        psql
    }

    /// Feeds a script; gives what it prints.
    fn run(&self, write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<Option<String>> {
        let mut psql = self.psql().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        if let Some(input) = psql.stdin.take() {
            write(&mut BufWriter::with_capacity(1 << 20, input))?;
        }
        let output = psql.wait_with_output()?;
        Ok(output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned()))
    }

    fn load(&self, catalog: &Catalog) -> Result<()> {
        let loaded = self.run(|sql| {
            writeln!(sql, "CREATE UNLOGGED TABLE pair (purl int NOT NULL, image int NOT NULL);")?;
            writeln!(
                sql,
                "CREATE UNLOGGED TABLE image (id int NOT NULL, namespace text NOT NULL, purls int[] NOT NULL);"
            )?;
            writeln!(sql, "COPY pair FROM STDIN;")?;
            for image in 0..catalog.images {
                for rank in catalog.ranks(image) {
                    writeln!(sql, "{rank}\t{image}")?;
                }
            }
            writeln!(sql, "\\.\nCOPY image FROM STDIN;")?;
            for image in 0..catalog.images {
                let ranks: Vec<String> = catalog.ranks(image).iter().map(u32::to_string).collect();
                let namespaces = Catalog::place(image).namespaces;
                writeln!(sql, "{image}\t{}\t{{{}}}", namespaces.concat(), ranks.join(","))?;
            }
            writeln!(sql, "\\.")?;
            writeln!(sql, "CREATE UNIQUE INDEX ON pair (purl, image);")?;
            writeln!(sql, "CREATE UNIQUE INDEX ON image (id) INCLUDE (namespace);")?;
            writeln!(sql, "CREATE INDEX ON image USING gin (purls);")?;
            writeln!(sql, "VACUUM ANALYZE pair; VACUUM ANALYZE image;")
        })?;
        loaded.map(|_| ()).ok_or_else(|| "PostgreSQL did not take the data".into())
    }

    /// The median time of a query in the server, in milliseconds; `None` when it takes too long.
    fn time(&self, query: &str, expected: u64) -> Result<Option<f64>> {
        let output = self.run(|sql| {
            writeln!(sql, "SET statement_timeout = '{QUERY_TIMEOUT}';")?;
            writeln!(sql, "{query};")?;
            writeln!(sql, "{query};")?;
            writeln!(sql, "\\timing on")?;
            (0..RUNS).try_for_each(|_| writeln!(sql, "{query};"))
        })?;
        let Some(output) = output else { return Ok(None) };
        let is_right = output.lines().next().is_some_and(|line| line.trim() == expected.to_string());
        if !is_right {
            return Err(format!("PostgreSQL found {:?}, the index {expected}", output.lines().next()).into());
        }
        let time = |line: &str| line.strip_prefix("Time: ")?.split_whitespace().next()?.parse::<f64>().ok();
        let mut times: Vec<f64> = output.lines().filter_map(time).collect();
        Ok(Some(percentile(&mut times, 50)))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The script stops the server when its input ends.
        drop(self.script.stdin.take());
        let _ = self.script.wait();
    }
}
