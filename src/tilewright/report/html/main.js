// Everything is in place: show it. A link may name a group: report.html#group=3.
showTime(0, makespan);
const wanted = /group=(\d+)/.exec(location.hash);
if (wanted && groups[Number(wanted[1])]) select(Number(wanted[1]));
document.documentElement.dataset.ready = "yes";
