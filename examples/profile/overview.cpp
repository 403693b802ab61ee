// SPDX-License-Identifier: BSD-3-Clause
#include "overview.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <normplace/detail/table_text.hpp>
#include <normplace/measure/compare.hpp>
#include <normplace/placement/plan.hpp>
#include <normplace/placement/visit.hpp>
#include <sstream>

#include "../paragraph.hpp"

namespace profile {

namespace np = normplace;
using np::detail::formatted;
using np::detail::left;
using np::detail::right;

namespace {

enum Kind { free_skip_path, norm_on_skip_path, norms_inside, streams, no_norm };
constexpr std::array<const char*, 5> kind_titles{"No norm on the skip path", "A norm on the skip path",
                                                 "Norms inside f", "More than one stream", "No norm in any layer"};

Kind kind_of(const PlacementResult& result) {
    const np::AnyPlacement& placement = np::placement_named(result.predicted.placement);
    if (placement.streams() > 1) return streams;
    if (placement.has_norms_inside()) return norms_inside;
    if (np::syntax::count_norms(placement.formula) == 0) return no_norm;
    const std::size_t layers = result.predicted.layers.size();
    const np::Plan last = np::plan(placement.formula, {layers, layers, np::SublayerKind::feed_forward});
    const auto& skip = last.results[0];
    return std::any_of(skip.begin(), skip.end(), [](const auto& term) { return term.source == 0; }) ? free_skip_path
                                                                                                    : norm_on_skip_path;
}

constexpr std::size_t name_width = 20, number_width = 7, measured_width = 9;

/// A star where the prediction warns.
std::string name_cell(const PlacementResult& result) {
    return left("  " + result.predicted.placement + (result.predicted.warnings.empty() ? "" : "*"), name_width);
}

/// In lines of at most so many columns.
std::vector<std::string> wrapped(const std::string& text, std::size_t columns) {
    std::vector<std::string> lines{""};
    std::istringstream words(text);
    for (std::string word; words >> word;) {
        if (!lines.back().empty() && lines.back().size() + 1 + word.size() > columns) lines.emplace_back();
        lines.back() += (lines.back().empty() ? "" : " ") + word;
    }
    return lines;
}

std::string trimmed(std::string line) {
    line.erase(line.find_last_not_of(' ') + 1);
    return line + '\n';
}

/// First, middle and last, from 0.
std::vector<std::size_t> shown_layers(std::size_t layers) {
    std::vector<std::size_t> shown{0, (layers - 1) / 2, layers - 1};
    shown.erase(std::unique(shown.begin(), shown.end()), shown.end());
    return shown;
}

std::string ratios(const np::RatioSummary& summary) {
    if (summary.count == 0) return right("-", number_width) + right("-", number_width);
    return right(formatted("%.3f", summary.geometric_mean), number_width) +
           right(formatted("%.3f", summary.worst), number_width);
}

void write_gradients(std::ostream& stream, const std::vector<PlacementResult>& results) {
    const bool measured = results.front().measured.has_value();
    const std::vector<std::size_t> shown = shown_layers(results.front().predicted.layers.size());
    std::string what = "||dLoss/dW_2||, predicted";
    if (measured) {
        const std::size_t seeds = results.front().measured->seeds;
        what += " | measured(standard error), " + std::to_string(seeds) + (seeds == 1 ? " seed" : " seeds");
    }
    if (measured) what += "; and predicted / measured of the gradients of all matrices, geometric mean and worst";
    paragraph(stream, what + ".");
    std::string heads = left("", name_width);
    for (const std::size_t l : shown) {
        const std::string head = "layer " + std::to_string(l + 1);
        heads += measured ? left("   " + head, number_width + 1 + measured_width) : right(head, number_width + 5);
    }
    if (measured) heads += "W_v W_o W_1 W_2       W_q W_k";
    stream << '\n' << trimmed(heads);
    for (const Group& group : grouped(results)) {
        stream << group.title << '\n';
        for (const PlacementResult* result : group.results) {
            std::string line = name_cell(*result);
            for (const std::size_t l : shown) {
                const std::string predicted = np::detail::number(result->predicted.layers[l].w2.norm);
                if (!measured) {
                    line += right(predicted, number_width + 5);
                    continue;
                }
                const np::GradientNorm& w2 = result->measured->layers[l].w2;
                std::string text = np::detail::number(w2.norm, w2.standard_error);
                if (text.size() > measured_width) text = np::detail::number(w2.norm);
                line += right(predicted, number_width) + " " + left(text, measured_width);
            }
            if (measured) {
                const np::Comparison comparison = np::compare(result->predicted, *result->measured);
                line += ratios(comparison.matrices) + ratios(comparison.query_key);
            }
            stream << trimmed(line);
        }
    }
}

std::string eta_half_text(double eta_half) { return std::isinf(eta_half) ? "never" : np::detail::number(eta_half); }

void write_formulas(std::ostream& stream, const std::vector<PlacementResult>& results) {
    constexpr std::size_t formula_width = 60;
    const bool advised = std::any_of(results.begin(), results.end(),
                                     [](const PlacementResult& result) { return !result.advice.sentence.empty(); });
    stream << '\n'
           << trimmed(left("", name_width) + left("formula", formula_width) + (advised ? "  eta_half  recovers" : ""));
    for (const Group& group : grouped(results))
        for (const PlacementResult* result : group.results) {
            const np::WarmUpAdvice& advice = result->advice;
            const std::vector<std::string> lines = wrapped(result->predicted.formula, formula_width - 2);
            std::string first = name_cell(*result) + left(lines.front(), formula_width);
            if (advised)
                first += right(eta_half_text(advice.eta_half), 10) + right(std::isnan(advice.eta_half) ? "-"
                                                                           : advice.recovers           ? "yes"
                                                                                                       : "no",
                                                                           10);
            stream << trimmed(first);
            for (std::size_t i = 1; i < lines.size(); ++i) stream << left("", name_width + 2) << lines[i] << '\n';
        }
    stream << '\n';
    if (advised)
        paragraph(stream,
                  "eta_half: the learning rate at which Adam's first step takes away half of the differences between "
                  "tokens; recovers: the skip path is never normalised and brings them back. -: no theory of the first "
                  "step, be it for learned factors, gains that start at 0, several streams or norms inside f. The "
                  "program warmup says more.");
    if (std::any_of(results.begin(), results.end(),
                    [](const PlacementResult& result) { return !result.predicted.warnings.empty(); }))
        paragraph(stream, "*: the prediction warns, on standard error.");
}

}  // namespace

std::vector<Group> grouped(const std::vector<PlacementResult>& results) {
    std::vector<Group> groups;
    for (std::size_t kind = 0; kind < kind_titles.size(); ++kind) {
        Group group{kind_titles[kind], {}};
        for (const PlacementResult& result : results)
            if (kind_of(result) == kind) group.results.push_back(&result);
        if (!group.results.empty()) groups.push_back(std::move(group));
    }
    return groups;
}

void write_overview(std::ostream& stream, const std::vector<PlacementResult>& results) {
    write_gradients(stream, results);
    write_formulas(stream, results);
}

}  // namespace profile
