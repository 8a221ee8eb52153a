//! Plan of the page of results: its sections, each with the commands that it needs
//! and the charts that are drawn of their tables.

use super::{
    chart::Chart,
    measurement::{Kind, Measurement, Section},
};

/// The sections, in the order in which they are measured.
pub(super) const SECTIONS: &[Section] = &[
    Section { id: "transfers", measurements: TRANSFERS },
    Section { id: "tpcc", measurements: TPCC },
    Section { id: "dtranx-rivals", measurements: DTRANX_RIVALS },
    Section { id: "ycsb", measurements: YCSB },
    Section { id: "queries", measurements: QUERIES },
    Section { id: "statements", measurements: STATEMENTS },
    Section { id: "overhead", measurements: OVERHEAD },
    Section { id: "tpcc-natural-keys", measurements: NATURAL_KEYS },
    Section { id: "checkin", measurements: CHECKIN },
    Section { id: "audit", measurements: AUDIT },
    Section { id: "levels", measurements: LEVELS },
    Section { id: "hot-spot", measurements: HOT_SPOT },
    Section { id: "bank", measurements: BANK },
    Section { id: "acid", measurements: ACID },
    Section { id: "dtranx", measurements: DTRANX },
];

const TRANSFERS: &[Measurement] = &[main_workload(
    "transfer --targets plain,native,mongotx,mongotx-published,gateway --clients 1,8,32",
    &[beside_native("transfer", "", "Transfers: transactions per second, by clients")],
)];

const TPCC: &[Measurement] = &[main_workload(
    "tpcc --targets native,mongotx,gateway --isolation read-committed,snapshot,serializable --clients 1,8,32",
    &[
        beside_native("tpcc-read-committed", "Read committed", "TPC-C at read committed, by clients"),
        beside_native("tpcc-snapshot", "Snapshot", "TPC-C at snapshot, by clients"),
        Chart {
            ratio: "x read committed",
            ..beside_native("tpcc-serializable", "Serializable", "TPC-C at serializable, by clients")
        },
    ],
)];

const NATURAL_KEYS: &[Measurement] = &[
    workload(
        "tpcc --natural-keys --targets native,mongotx,gateway --isolation snapshot --clients 1,8,32",
        &[beside_native("tpcc-natural-keys", "", "TPC-C with natural keys, by clients")],
    ),
    workload(
        "tpcc --natural-keys --schema normalized --targets native,mongotx,gateway --isolation snapshot --clients 1,8",
        &[],
    ),
];

const ACID: &[Measurement] =
    &[Measurement { command: "acid --targets plain,native,mongotx", kind: Kind::Acid, is_main: false, charts: &[] }];

const YCSB: &[Measurement] = &[
    workload(
        "ycsb --core a --targets plain,native,mongotx --clients 1,8,32",
        &[beside_native("ycsb-a", "", "YCSB A, update-heavy: transactions per second, by clients")],
    ),
    workload(
        "ycsb --core b --targets plain,native,mongotx --clients 1,8,32",
        &[beside_native("ycsb-b", "", "YCSB B, read-mostly: transactions per second, by clients")],
    ),
    workload(
        "ycsb --core c --targets plain,native,mongotx,mvcc --clients 1,8,32",
        &[beside_native("ycsb-c", "", "YCSB C, read-only: transactions per second, by clients")],
    ),
    workload(
        "ycsb --core d --targets plain,native,mongotx --clients 1,8,32",
        &[beside_native("ycsb-d", "", "YCSB D, the latest records: transactions per second, by clients")],
    ),
    workload(
        "ycsb --core e --targets plain,native,mongotx --clients 1,8,32",
        &[beside_native("ycsb-e", "", "YCSB E, short ranges: transactions per second, by clients")],
    ),
    workload(
        "ycsb --core f --targets plain,native,mongotx --clients 1,8,32",
        &[beside_native("ycsb-f", "", "YCSB F, read-modify-write: transactions per second, by clients")],
    ),
];

const CHECKIN: &[Measurement] = &[workload(
    "checkin --targets plain,native,mongotx,mvcc --clients 1,8,32",
    &[beside_native("checkin", "", "Check-in: transactions per second, by clients")],
)];

const HOT_SPOT: &[Measurement] = &[workload(
    "hot-spot --targets native,mongotx --clients 8,32",
    &[beside_native("hot-spot", "", "Hot spot: transactions per second, by clients")],
)];

const AUDIT: &[Measurement] = &[
    Measurement {
        command: "transfer --auditors 1 --targets native,mongotx --isolation snapshot,serializable --clients 9",
        kind: Kind::WorkloadApart,
        is_main: false,
        charts: &[],
    },
    workload("transfer --targets native,mongotx --isolation snapshot,serializable --clients 8", &[]),
];

const LEVELS: &[Measurement] = &[
    workload(
        "transfer --reads-first --targets native,mongotx --isolation read-committed,snapshot,serializable \
         --clients 1,8",
        &[],
    ),
    workload("ycsb --core a --targets mongotx --isolation read-committed,snapshot --clients 8", &[]),
];

const BANK: &[Measurement] = &[workload(
    "bank-table --targets native,mongotx --clients 8",
    &[Chart {
        groups: "work",
        label: "{}",
        ..beside_native("bank", "", "Bank, three nodes: transactions per second, by documents and write concern")
    }],
)];

const QUERIES: &[Measurement] = &[Measurement {
    command: "queries --mirrored true --pending 0,1000 --held-by same,another,elsewhere",
    kind: Kind::Tables { stretches: 88 },
    is_main: false,
    charts: &[Chart {
        only: &[("pending", "0")],
        groups: "query",
        value: "plain p50 ms, MongoTx p50 ms",
        rival: "plain p50 ms",
        axis: "median latency in ms with nothing pending (× plain)",
        ..Chart::of("queries", "", "Median latency of queries with nothing pending")
    }],
}];

const STATEMENTS: &[Measurement] =
    &[Measurement { command: "statements", kind: Kind::Tables { stretches: 24 }, is_main: false, charts: &[] }];

const OVERHEAD: &[Measurement] = &[Measurement {
    command: "overhead --operations find,insert,update,query,transaction --connections 1,8,32 --idle-connections 2000",
    kind: Kind::Tables { stretches: 57 },
    is_main: false,
    charts: &[Chart {
        only: &[("connections", "8")],
        groups: "operation",
        value: "direct /s, proxy /s, gateway /s",
        rival: "direct /s",
        axis: "operations per second on 8 connections (× direct)",
        ..Chart::of("gateway", "What the gateway costs", "Operations per second through a gateway, and without it")
    }],
}];

const DTRANX_RIVALS: &[Measurement] = &[
    dtranx(
        "tables --only d",
        24,
        &[
            Chart { only: &[("servers", "1")], ..beside_etcd("dtranx-rivals-1", "Transfers per second, one server") },
            Chart {
                only: &[("servers", "3")],
                ..beside_etcd("dtranx-rivals-3", "Transfers per second, three servers")
            },
        ],
    ),
    dtranx("tables --only j", 8, &[]),
];

const DTRANX: &[Measurement] = &[
    dtranx(
        "tables --only a",
        12,
        &[Chart {
            only: &[("keys", "uniform")],
            bars: "servers",
            name_of_bar: "{} servers",
            groups: "work",
            value: "tx/s",
            axis: "transactions per second, uniform keys",
            ..Chart::of("dtranx-paper", "", "Transactions per second, by the part of reads")
        }],
    ),
    dtranx("tables --only b", 8, &[]),
    dtranx("tables --only c", 8, &[]),
    dtranx("tables --only e", 4, &[]),
    dtranx("tables --only f", 11, &[]),
    dtranx("tables --only g --log-mib 0,64,256", 16, &[]),
    dtranx("tables --only h", 9, &[]),
    dtranx("tables --only i", 3, &[]),
];

const fn workload(command: &'static str, charts: &'static [Chart]) -> Measurement {
    Measurement { command, kind: Kind::Workload, is_main: false, charts }
}

const fn main_workload(command: &'static str, charts: &'static [Chart]) -> Measurement {
    Measurement { command, kind: Kind::Workload, is_main: true, charts }
}

const fn dtranx(command: &'static str, stretches: u32, charts: &'static [Chart]) -> Measurement {
    Measurement { command, kind: Kind::Dtranx { stretches }, is_main: false, charts }
}

/// Throughput of the targets, by clients, beside that of `native`.
const fn beside_native(name: &'static str, table: &'static str, text: &'static str) -> Chart {
    Chart {
        bars: "target",
        groups: "clients",
        label: "{} clients",
        value: "tx/s",
        axis: "transactions per second",
        ratio: "x native",
        ..Chart::of(name, table, text)
    }
}

/// Throughput of the stores, by transactions in flight, beside that of etcd.
const fn beside_etcd(name: &'static str, text: &'static str) -> Chart {
    Chart {
        bars: "#1",
        groups: "in flight",
        label: "{} in flight",
        value: "tx/s",
        axis: "transfers per second (× etcd)",
        rival: "etcd",
        ..Chart::of(name, "", text)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::pace::{PACES, Pace, fitting},
        *,
    };

    fn all(pace: Pace) -> u64 {
        SECTIONS.iter().map(|section| section.seconds(pace)).sum()
    }

    #[test]
    fn a_longer_time_is_used_and_a_shorter_one_kept() {
        for minutes in [25.0, 30.0, 60.0, 240.0] {
            let pace = fitting(minutes, all);
            assert!(all(pace) as f64 <= minutes * 60.0, "{pace:?} in {minutes} minutes takes {} s", all(pace));
        }
        let of = |minutes| all(fitting(minutes, all));
        assert!(of(30.0) < of(60.0) && of(60.0) < of(240.0));
        assert_eq!(fitting(0.1, all), Pace { seconds: 1, main_rounds: 1, rounds: 1 });
    }

    #[test]
    fn each_pace_is_shorter_than_the_one_before() {
        let seconds: Vec<u64> = PACES.map(all).to_vec();
        assert!(seconds.is_sorted_by(|one, next| one > next), "{seconds:?}");
    }

    #[test]
    fn what_the_page_is_read_for_has_three_rounds_in_30_minutes() {
        assert!(fitting(30.0, all).main_rounds >= 3, "all takes {:?}", PACES.map(all));
    }
}
