// SPDX-License-Identifier: BSD-3-Clause
#include "run.hpp"

#include <normplace/analysis/predict.hpp>
#include <normplace/io/progress.hpp>
#include <normplace/placement/visit.hpp>

#include "../shared/files.hpp"
#include "../shared/measurement.hpp"

namespace accuracy {

namespace np = normplace;

namespace {

Comparison predicted(const Row& row, const std::string& placement) {
    const np::GradientReport report = np::predict(np::placement_named(placement), row.model);
    Comparison comparison{row, placement, 0, {}, report.warnings};
    np::for_each_quantity(report, [&](const std::string& name, double value, double) {
        np::Compared compared;
        compared.name = name;
        compared.predicted = value;
        comparison.numbers.push_back(compared);
    });
    return comparison;
}

void add_measurement(Comparison& comparison, const np::GradientReport& report) {
    std::size_t i = 0;
    np::for_each_quantity(report, [&](const std::string&, double value, double standard_error) {
        comparison.numbers[i].measured = value;
        comparison.numbers[i++].standard_error = standard_error;
    });
    comparison.seeds = report.seeds;
}

}  // namespace

std::vector<Comparison> run(const Options& options, const std::vector<Row>& rows) {
    for (const Row& row : rows) shared::check_memory("--size", row.model, row.seeds, 2.0);
    Store store(options.csv_file == "-" ? "" : options.csv_file);

    std::vector<Comparison> all, found;
    double total = 0.0;
    {
        np::Progress progress(
            {.total = static_cast<double>(rows.size() * options.placements.size()), .label = "predicting"});
        for (const Row& row : rows)
            for (const std::string& placement : options.placements) {
                all.push_back(predicted(row, placement));
                if (store.find(all.back())) found.push_back(all.back());
                else total += row.work();
                progress.advance(1.0);
            }
    }
    if (!options.measure) {
        if (found.empty())
            throw UsageError("--no-measure: '" + options.csv_file + "' has no row of this list and these placements");
        return found;
    }
    store.begin(found);

    np::Progress progress({.total = total});
    for (Comparison& comparison : all) {
        if (comparison.seeds > 0) continue;
        const Row& row = comparison.row;
        progress.label("row " + std::to_string(row.number) + " of " + std::to_string(rows.size()) + ", " +
                       comparison.placement);
        const double work = row.work() / static_cast<double>(row.seeds);
        np::MeasureOptions measurement;
        measurement.seeds = row.seeds;
        measurement.progress = [&](std::size_t, std::size_t) { progress.advance(work); };
        add_measurement(comparison,
                        np::measure<float>(np::placement_named(comparison.placement), row.model, measurement));
        store.add(comparison);
    }
    return all;
}

}  // namespace accuracy
