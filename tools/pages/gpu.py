"""The tables of docs/gpu.md: what benchmarks/gpu.py stored."""

from __future__ import annotations

from tools.results import stored

from .blocks import block, markdown


@block
def gpu_measurements() -> str:
    """The machine, its ceilings, and each figure beside its floor."""
    found = stored("gpu")
    machine, top = found["machine"], found["ceilings"]
    one, deep, slopes, kept = found["greedy"], found["log-determinant"], found["gradient"], found["dense"]
    rows = [
        [
            f"private greedy over embeddings, {one['people']:,} x {one['items']:,}, k = {one['k']}",
            f"{one['gpu_seconds']:.2f} s",
            f"{one['cpu_seconds_scaled']:.0f} s",
            f"{one['ratio']:.0f}x",
            "100x",
        ],
        [
            "one pass of the same",
            f"{one['pass_ms']:.0f} ms",
            "",
            f"{one['pass_share']:.0%} of the peak rate of byte products",
            "35 %",
        ],
    ]
    for name, said in (("FacilityLocation float64", "45 %"), ("FacilityLocation float32", "")):
        entry = kept[name]
        kind = name.split()[1]
        cpu = f"{kept['cpu_ms']['threads']:.0f} ms" if kind == "float64" else ""
        share = f"{entry['share']:.0%} of the memory bandwidth"
        size = f"{kept['size']:,} x {kept['size']:,}"
        rows.append(
            [f"stored facility location, {size}, {kind}, one pass", f"{entry['ms']:.2f} ms", cpu, share, said]
        )
    entry = kept["ConcaveOverModular float64"]
    rows += [
        [
            "the same, square roots",
            f"{entry['ms']:.2f} ms",
            "",
            f"{entry['share']:.0%} of the memory bandwidth",
            "",
        ],
        [
            f"log-determinants, {deep['people']:,} x {deep['items']:,}, k = {deep['k']}",
            f"{1e3 * deep['gpu_seconds']:.0f} ms",
            f"{deep['cpu_seconds']:.1f} s, {deep['cpu_seconds_from_array']:.1f} s",
            f"{deep['cpu_seconds'] / deep['gpu_seconds']:.0f}x, {deep['ratio']:.0f}x",
            "100x",
        ],
    ]
    for name in ("ProbabilisticCoverage", "FacilityLocation"):
        slope = slopes[name]
        rows.append(
            [
                f"multilinear gradient, `{name}`, {slopes['people']:,} x {slopes['items']}",
                f"{slope['gpu_ms']:.0f} ms",
                f"{slope['cpu_ms_scaled_one_thread']:,.0f} ms",
                f"{slope['ratio']:.0f}x",
                "",
            ]
        )
    products, copy = top["int8_operations"] / 1e12, top["bytes"] / 1e12
    versions = f"torch {machine['torch']}, Triton {machine['triton']}"
    head = (
        f"{machine['name']} with {machine['cores']} CPU cores, {versions}. Peak rates measured in the same"
        f" run: {products:.0f} tera-operations per second in products of bytes, {copy:.1f} TB/s in a"
        " copy.\n\n"
    )
    return head + markdown(
        ["task, people x items", "GPU", "CPU", "speed-up, or share of the peak", "target"], rows
    )


@block
def two_cores() -> str:
    """Embeddings beside a stored matrix."""
    found = stored("gpu")["two cores"]
    people, items, k = found["people, items, k"]
    spent = [f"{found[way]['processor']:.1f} s" for way in ("embedded", "matrix")]
    held = [f"{found[way]['megabytes']:,.0f} MB" for way in ("embedded", "matrix")]
    return (
        f"Without a GPU, on two busy cores ({people:,} people, {items:,} items, k = {k}), embeddings took"
        f" {spent[0]} of CPU time and {held[0]} of memory at the peak. Building the similarity matrix and"
        f" selecting from it took {spent[1]} and {held[1]}. The selected items are the same."
    )
