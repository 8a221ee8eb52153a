//! The papers' figures: their findings in our own words, and the measurements here for each.

use super::compare::Metric;

/// A figure of a paper.
#[derive(Clone, Copy, Debug)]
pub struct PaperFigure {
    /// Number of the paper and of the figure in it, as in "000-9".
    pub id: &'static str,
    /// Title of the figure on the page, in our own words.
    pub title: &'static str,
    /// Finding of the paper that the figure shows.
    pub finding: &'static str,
    /// Differences between the paper and this measurement.
    pub here: &'static str,
    /// Work that is measured; none where one machine cannot show it.
    pub works: &'static [Work],
    /// Targets to measure; the first are those that the others are compared with.
    pub targets: &'static [&'static str],
    /// Numbers of clients to measure with.
    pub clients: &'static [u32],
    /// Kinds of charts that are drawn of the measurements.
    pub shows: &'static [Shows],
    /// Metrics that are compared, in a sentence below.
    pub compared: &'static [Metric],
}

/// A workload with its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Work {
    /// Name of the work in tables and charts.
    pub name: &'static str,
    /// Command line of the figure for `mongotx-bench`.
    pub command: &'static str,
}

/// Kinds of charts that a figure can be shown by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shows {
    /// Latency, all workloads in one chart.
    Latency,
    /// Throughput against latency, a chart for each workload.
    ThroughputLatency,
    /// Throughput over clients, a chart for each workload.
    Scaling,
    /// Commands, all workloads in one chart.
    Commands,
    /// Latency by kind of transaction, a chart for each workload.
    Kinds,
}

const UPDATE_HEAVY: Work = Work { name: "update-heavy", command: "ycsb --core a" };
const READ_MOSTLY: Work = Work { name: "read-mostly", command: "ycsb --core b" };
const READ_ONLY: Work = Work { name: "read-only", command: "ycsb --core c" };
const SHORT_RANGES: Work =
    Work { name: "short-ranges", command: "ycsb --mix scan=95,update=5 --distribution zipfian --scan-lengths 10" };
const RANGES_OF_ONE: Work =
    Work { name: "ranges of one", command: "ycsb --mix scan=95,update=5 --distribution zipfian --scan-lengths 1" };
const TPCC: Work = Work { name: "tpcc", command: "tpcc --rollback-percent 0" };
const CHECK_INS: &[Work] = &[
    Work { name: "1 document", command: "checkin --documents 1" },
    Work { name: "5 documents", command: "checkin --documents 5" },
    Work { name: "10 documents", command: "checkin --documents 10" },
    Work { name: "20 documents", command: "checkin --documents 20" },
];

const YCSB: &[Work] = &[UPDATE_HEAVY, READ_MOSTLY, READ_ONLY, SHORT_RANGES];
const AGAINST_PLAIN: &[&str] = &["plain", "mongotx-published", "mongotx"];
const AGAINST_MVCC: &[&str] = &["mvcc", "mongotx-published", "mongotx"];

/// A figure that one machine cannot show.
const LEFT_OUT: PaperFigure = PaperFigure {
    id: "",
    title: "",
    finding: "",
    here: "",
    works: &[],
    targets: &[],
    clients: &[],
    shows: &[],
    compared: &[],
};

/// All figures, in the papers' order.
pub static FIGURES: &[PaperFigure] = &[
    PaperFigure {
        id: "000-9",
        title: "Paper 000, figure 9: latency of YCSB with one client",
        finding: "Reads alone take about as long as without transactions. Everything else takes longer, and the longer the more \
                  is written: nothing is ever repaired or rolled back with one client, so this is what transactions cost.",
        here: "Latencies are those of whole transactions of five operations.",
        works: YCSB,
        targets: AGAINST_PLAIN,
        clients: &[1],
        shows: &[Shows::Latency],
        compared: &[Metric::MeanLatency],
    },
    PaperFigure {
        id: "000-10",
        title: "Paper 000, figure 10: throughput and latency of YCSB on one node",
        finding: "Where anything is written, and with short ranges, the highest throughput stays below MongoDB's, by more when \
                  more is written. The paper does not count read-only among these.",
        here: "1 to 128 clients in one process, which shares the machine with the server; the paper had machines for each.",
        works: YCSB,
        targets: AGAINST_PLAIN,
        clients: &[1, 2, 4, 8, 12, 32, 128],
        shows: &[Shows::ThroughputLatency],
        compared: &[Metric::PeakThroughput],
    },
    PaperFigure {
        id: "000-11",
        title: "Paper 000, figure 11: commands for each operation of YCSB",
        finding: "Transactions send more commands, in about the pattern of the latencies of figure 9: the paper takes them for \
                  the main reason of these.",
        here: "Everything the driver sends is counted, what is done after the answer to a commit too.",
        works: YCSB,
        targets: AGAINST_PLAIN,
        clients: &[1],
        shows: &[Shows::Commands],
        compared: &[Metric::CommandsPerOperation],
    },
    PaperFigure {
        id: "000-12",
        title: "Paper 000, figure 12: scalability of YCSB over servers",
        finding: "With more servers, throughput grows at least as well as MongoDB's own.",
        here: "Left out: it needs five machines with servers and three with routers. Several servers on one machine would share \
               its processors, and show nothing of it.",
        ..LEFT_OUT
    },
    PaperFigure {
        id: "000-13",
        title: "Paper 000, figure 13: latency of TPC-C by transaction, one client",
        finding: "The two transactions that only read take about as long as without transactions; the average is about 70 % \
                  longer.",
        here: "All five transactions of the specification, one warehouse, order lines inside orders, no think time. No new \
               order is rolled back on purpose: without transactions nothing could be taken back.",
        works: &[TPCC],
        targets: AGAINST_PLAIN,
        clients: &[1],
        shows: &[Shows::Kinds],
        compared: &[Metric::MeanLatency],
    },
    PaperFigure {
        id: "000-14",
        title: "Paper 000, figure 14: commands for each transaction of TPC-C, one client",
        finding: "The numbers of commands differ about as the latencies do. Most of what is added is findAndModify: it changes \
                  statuses, writes unsafe versions and makes them safe.",
        here: "The published layout sends what the paper describes; the library as it is now decides and finishes with other \
               commands, and shares them between transactions.",
        works: &[TPCC],
        targets: AGAINST_PLAIN,
        clients: &[1],
        shows: &[Shows::Commands],
        compared: &[Metric::CommandsPerTransaction],
    },
    PaperFigure {
        id: "000-15",
        title: "Paper 000, figure 15: scalability of TPC-C over servers",
        finding: "Throughput grows nearly in proportion to the number of servers.",
        here: "Left out, as figure 12: one machine cannot show it.",
        ..LEFT_OUT
    },
    PaperFigure {
        id: "001-7",
        title: "Paper 001, figure 7: throughput of YCSB, MongoTx and MVCC",
        finding: "MongoTx has more throughput than a store of versions with Percolator's transactions, twice as much and more with \
                  reads alone, but not with short ranges. The paper's reason: a version is found through an index, a document \
                  by its _id.",
        here: "One server in place of five. As in the paper, a range is one document. MVCC is made as fast as it honestly can be: \
               it asks for later versions of all documents at once.",
        works: &[UPDATE_HEAVY, READ_MOSTLY, READ_ONLY, RANGES_OF_ONE],
        targets: AGAINST_MVCC,
        clients: &[1, 8, 32],
        shows: &[Shows::Scaling],
        compared: &[Metric::PeakThroughput],
    },
    PaperFigure {
        id: "001-8",
        title: "Paper 001, figure 8: check-ins, latency and commands by documents returned",
        finding: "With one document MongoTx and MVCC are alike. With twenty MongoTx is better: MVCC has to ask for the latest \
                  version of every document, MongoTx needs three commands at most for a query.",
        here: "The points of a synthetic map, as many as the paper had. MVCC asks for all versions at once, not for each as the \
               paper's does, so that its commands do not grow.",
        works: CHECK_INS,
        targets: &["plain", "mvcc", "mongotx-published", "mongotx"],
        clients: &[1],
        shows: &[Shows::Latency, Shows::Commands],
        compared: &[Metric::MeanLatency, Metric::CommandsPerTransaction],
    },
];
