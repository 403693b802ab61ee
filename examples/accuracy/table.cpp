// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <map>
#include <normplace/detail/table_text.hpp>
#include <normplace/nn/blas_description.hpp>

#include "../paragraph.hpp"
#include "files.hpp"

namespace accuracy {

namespace np = normplace;
using np::detail::formatted;
using np::detail::left;
using np::detail::right;

namespace {

/// In hundredths, at most five characters.
std::string percent(double value) {
    const double hundredths = 100.0 * value;
    if (!std::isfinite(value)) return "-";
    if (hundredths >= 9999.5) return formatted("%.0e", hundredths);
    return formatted(hundredths < 9.995 ? "%.2f" : hundredths < 99.95 ? "%.1f" : "%.0f", hundredths);
}

std::string cells(const Spread& spread) {
    return right(percent(spread.median), 6) + right(percent(spread.percentile_95), 6) +
           right(percent(spread.worst), 6) + "  ";
}

std::string trimmed(std::string line) {
    line.erase(line.find_last_not_of(' ') + 1);
    return line + '\n';
}

void write_errors(std::ostream& stream, const std::vector<PlacementSummary>& summaries, Spread Group::*spread) {
    std::string heads = left("", 15), columns = left("", 15);
    for (const char* part : {"tuning", "held out", "narrow, tuning", "narrow, held out"}) {
        heads += left("  " + std::string(part), 20);
        columns += "  med.   95%   max  ";
    }
    stream << trimmed(heads) << trimmed(columns);
    for (const PlacementSummary& summary : summaries) {
        stream << summary.placement << '\n';
        for (std::size_t q = 0; q < quantity_texts.size(); ++q) {
            std::string line = left("  " + std::string(quantity_texts[q].symbol), 15);
            for (const auto& part : summary.groups) line += cells(part[q].*spread);
            stream << trimmed(line);
        }
    }
}

void write_standard_errors(std::ostream& stream, const std::vector<PlacementSummary>& summaries) {
    stream << "\nThe measurement's own standard error, median:\n";
    std::string heads = left("", 18);
    for (const QuantityText& text : quantity_texts) heads += right(text.symbol, text.symbol[0] == 'W' ? 6 : 15);
    stream << heads << '\n';
    for (const PlacementSummary& summary : summaries) {
        stream << left(summary.placement, 18);
        for (std::size_t q = 0; q < quantity_texts.size(); ++q)
            stream << right(percent(summary.standard_errors[q]), quantity_texts[q].symbol[0] == 'W' ? 6 : 15);
        stream << '\n';
    }
}

/// "12 of 96 W_q and 12 of 96 W_k", all parts together; empty when there are none
std::string counted(const PlacementSummary& summary, std::size_t Group::*which) {
    std::string text;
    for (std::size_t q = 0; q < quantity_texts.size(); ++q) {
        std::size_t found = 0, all = 0;
        for (const auto& part : summary.groups) {
            found += part[q].*which;
            all += part[q].count + part[q].missing + part[q].rounded;
        }
        if (found == 0) continue;
        text += (text.empty() ? "" : " and ") + std::to_string(found) + " of " + std::to_string(all) + " " +
                quantity_texts[q].symbol;
    }
    return text;
}

/// What is in none of the tables, and why.
void write_missing(std::ostream& stream, const std::vector<PlacementSummary>& summaries) {
    for (const PlacementSummary& summary : summaries) {
        const std::string missing = counted(summary, &Group::missing), rounded = counted(summary, &Group::rounded);
        if (summary.rows_with_warnings > 0)
            paragraph(stream,
                      "* " + summary.placement + ": the prediction warns in " +
                          std::to_string(summary.rows_with_warnings) + " of " + std::to_string(summary.rows) + " rows" +
                          (missing.empty() ? "" : ", and has no number for " + missing) +
                          ". The first warning: " + summary.warning + ".",
                      2);
        if (!rounded.empty())
            paragraph(stream,
                      "* " + summary.placement + ": " + rounded +
                          " are beneath the rounding of float, as predicted, and left out: less than a millionth of "
                          "the layer's largest gradient.",
                      2);
    }
}

void write_laws(std::ostream& stream, const std::vector<PlacementSummary>& summaries) {
    bool first = true;
    for (const PlacementSummary& summary : summaries) {
        if (!summary.has_laws) continue;
        if (first) {
            stream << '\n';
            paragraph(stream,
                      "A layer's gradient over the last layer's, from layer 1 to the last but one, of all widths: the "
                      "same errors, beside those of the laws of Xiong et al. 2020 (arXiv:2002.04745; for W_2, Post-LN "
                      "(2/3)^((L-l)/2), Pre-LN 1) and Kedia et al. 2024 (arXiv:2403.09635; for all of a layer's "
                      "matrices at Xavier, Post-LN 1.024^(l-L), Pre-LN (L/l)^(1/2)).");
            stream << '\n'
                   << left("", 34) << left("  predicted", 20) << left("  Xiong et al.", 20) << "  Kedia et al.\n"
                   << left("", 34);
            for (int i = 0; i < 3; ++i) stream << "  med.   95%   max  ";
            stream << "  s.e.\n";
            first = false;
        }
        for (std::size_t part = 0; part < 2; ++part)
            for (std::size_t which = 0; which < 2; ++which) {
                const LawGroup& group = summary.laws[part][which];
                stream << left(part + which == 0 ? summary.placement : "", 10)
                       << left(which > 0   ? ""
                               : part == 0 ? "tuning"
                                           : "held out",
                               10)
                       << left(which == 0 ? "W_2" : "all six", 14) << cells(group.predicted) << cells(group.xiong)
                       << cells(group.kedia) << right(percent(group.standard_error), 6) << '\n';
            }
    }
}

}  // namespace

void write_rows(std::ostream& stream, const std::vector<Row>& rows) {
    stream << "row            seeds\n";
    for (const Row& row : rows)
        stream << right(std::to_string(row.number), 3) << "  " << left(row.held_out ? "held out" : "", 9)
               << right(std::to_string(row.seeds), 6) << "  " << row.description() << '\n';
}

void write_tables(std::ostream& stream, const Options& options, const std::vector<Comparison>& comparisons,
                  const std::vector<PlacementSummary>& summaries, const std::vector<std::string>& exceeded) {
    std::map<std::size_t, Row> rows;
    for (const Comparison& comparison : comparisons) rows.emplace(comparison.row.number, comparison.row);
    std::size_t held_out = 0, narrow = 0, layers = 0;
    for (const auto& [number, row] : rows) {
        held_out += row.held_out;
        narrow += row.narrow();
        layers += row.model.layers;
    }
    paragraph(stream, "The " + options.size + " list: " + std::to_string(rows.size()) + " models with " +
                          std::to_string(layers) + " layers in all, " + std::to_string(held_out) +
                          " of the models held out and " + std::to_string(narrow) +
                          " narrower than 256 (--list shows them), under " + std::to_string(summaries.size()) +
                          (summaries.size() == 1 ? " placement." : " placements."));
    const np::BlasDescription blas = np::blas_description();
    stream << "measured on " << blas.library << (blas.kernels.empty() ? "" : ", " + blas.kernels + " kernels") << '\n';
    if (!blas.advice.empty()) stream << blas.advice << '\n';

    stream << '\n';
    paragraph(stream,
              "|predicted / measured - 1| in percent: median, 95th percentile and largest of all layers. Of a token "
              "correlation it is |predicted - measured| in hundredths. The measurement's own error is in it.");
    stream << '\n';
    write_errors(stream, summaries, &Group::error);
    write_standard_errors(stream, summaries);
    stream << "\nWhat of the errors is beyond two standard errors of the measurement:\n\n";
    write_errors(stream, summaries, &Group::beyond_noise);
    stream << '\n';
    write_missing(stream, summaries);
    write_laws(stream, summaries);

    stream << '\n';
    paragraph(stream,
              std::string("Beyond the noise, errors should be at most: gradient norms 1 % in the median, 3 % in the "
                          "95th percentile, 6 % at worst; second moments 1 %; correlations 0.01; below width 256 twice "
                          "that. ") +
                  (exceeded.empty() ? "They are." : std::to_string(exceeded.size()) + " groups are not:"));
    for (const std::string& sentence : exceeded) paragraph(stream, "* " + sentence, 2);
}

}  // namespace accuracy
