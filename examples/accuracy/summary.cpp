// SPDX-License-Identifier: BSD-3-Clause
#include "summary.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <normplace/detail/table_text.hpp>

#include "laws.hpp"

namespace accuracy {

namespace np = normplace;
using np::detail::formatted;

namespace {

double median_of(std::vector<double> values) { return spread_of(std::move(values)).median; }

Part part_of(const Row& row) {
    if (row.narrow()) return row.held_out ? Part::narrow_held_out : Part::narrow_tuning;
    return row.held_out ? Part::held_out : Part::tuning;
}

/// The errors that a group is made of.
struct Collected {
    std::vector<double> sizes, beyond_noise, standard_errors;
    std::size_t missing = 0, rounded = 0;
    double furthest = -1.0;
    std::string worst;

    /// @param least what can be measured
    void add(Quantity quantity, const np::Compared& value, double least, const Comparison& comparison) {
        if (!std::isfinite(value.measured)) return;
        if (!std::isfinite(value.predicted)) {
            ++missing;
            return;
        }
        if (value.measured < least && value.predicted < least) {
            ++rounded;
            return;
        }
        const Error error = error_of(quantity, value);
        sizes.push_back(error.size);
        beyond_noise.push_back(error.beyond_noise());
        standard_errors.push_back(error.standard_error);
        if (!(beyond_noise.back() > furthest)) return;
        furthest = beyond_noise.back();
        worst = np::detail::short_name(value.name) + ", predicted " + np::detail::number(value.predicted) +
                ", measured " + np::detail::number(value.measured) + " +- " + np::detail::number(value.standard_error) +
                ", in row " + std::to_string(comparison.row.number) + ": " + comparison.row.description();
    }
    Group group() && {
        Group group;
        group.count = sizes.size();
        group.missing = missing;
        group.rounded = rounded;
        group.error = spread_of(std::move(sizes));
        group.beyond_noise = spread_of(std::move(beyond_noise));
        group.standard_error = median_of(std::move(standard_errors));
        group.worst = std::move(worst);
        return group;
    }
};

/// One number for each layer, from the first to the last.
struct Profile {
    std::vector<double> predicted, measured, standard_error;
};

/// ||dLoss/dW_2|| of each layer, or the norm of all six together.
Profile profile_of(const Comparison& comparison, bool all_matrices) {
    const std::size_t layers = comparison.row.model.layers;
    Profile squares{std::vector<double>(layers), std::vector<double>(layers), std::vector<double>(layers)};
    for (const np::Compared& value : comparison.numbers) {
        const std::optional<Quantity> quantity = quantity_of(value.name);
        if (!quantity || !is_matrix(*quantity) || (!all_matrices && *quantity != Quantity::w2)) continue;
        const std::size_t l = layer_of(value.name);
        squares.predicted[l] += value.predicted * value.predicted;
        squares.measured[l] += value.measured * value.measured;
        // The matrices of one layer go up and down together.
        squares.standard_error[l] += value.measured * value.standard_error;
    }
    for (std::size_t l = 0; l < layers; ++l) {
        squares.standard_error[l] /= squares.measured[l];  // relative
        squares.predicted[l] = std::sqrt(squares.predicted[l]);
        squares.measured[l] = std::sqrt(squares.measured[l]);
    }
    return squares;
}

struct CollectedLaw {
    std::vector<double> predicted, xiong, kedia, standard_errors;

    void add(const std::string& placement, const Profile& profile) {
        const std::size_t layers = profile.measured.size();
        for (std::size_t l = 0; l + 1 < layers; ++l) {
            const double measured = profile.measured[l] / profile.measured.back(),
                         prediction = profile.predicted[l] / profile.predicted.back();
            if (!std::isfinite(measured) || !std::isfinite(prediction)) continue;
            predicted.push_back(std::abs(prediction / measured - 1.0));
            xiong.push_back(std::abs(xiong_law(placement, l + 1, layers) / measured - 1.0));
            kedia.push_back(std::abs(kedia_law(placement, l + 1, layers) / measured - 1.0));
            standard_errors.push_back(std::hypot(profile.standard_error[l], profile.standard_error.back()));
        }
    }
    LawGroup group() && {
        return {spread_of(std::move(predicted)), spread_of(std::move(xiong)), spread_of(std::move(kedia)),
                median_of(std::move(standard_errors))};
    }
};

PlacementSummary summary_of(const std::string& placement, const std::vector<Comparison>& comparisons) {
    std::array<std::array<Collected, quantity_texts.size()>, part_words.size()> collected;
    std::array<std::array<CollectedLaw, 2>, 2> laws;
    PlacementSummary summary;
    summary.placement = placement;
    summary.has_laws = !std::isnan(xiong_law(placement, 1, 2));
    for (const Comparison& comparison : comparisons) {
        if (comparison.placement != placement) continue;
        ++summary.rows;
        const std::vector<double> resolution = comparison.resolution();
        for (const np::Compared& value : comparison.numbers) {
            const std::optional<Quantity> quantity = quantity_of(value.name);
            if (!quantity) continue;
            const double least = is_matrix(*quantity) ? resolution[layer_of(value.name)] : -HUGE_VAL;
            collected[static_cast<std::size_t>(part_of(comparison.row))][static_cast<std::size_t>(*quantity)].add(
                *quantity, value, least, comparison);
        }
        for (const bool all_matrices : {false, true})
            if (summary.has_laws)
                laws[comparison.row.held_out][all_matrices].add(placement, profile_of(comparison, all_matrices));
        if (comparison.warnings.empty()) continue;
        if (summary.rows_with_warnings++ == 0) summary.warning = comparison.warnings.front();
    }
    for (std::size_t quantity = 0; quantity < quantity_texts.size(); ++quantity) {
        std::vector<double> all;
        for (const auto& part : collected)
            all.insert(all.end(), part[quantity].standard_errors.begin(), part[quantity].standard_errors.end());
        summary.standard_errors[quantity] = median_of(std::move(all));
    }
    for (std::size_t part = 0; part < collected.size(); ++part)
        for (std::size_t quantity = 0; quantity < collected[part].size(); ++quantity)
            summary.groups[part][quantity] = std::move(collected[part][quantity]).group();
    for (std::size_t part = 0; part < laws.size(); ++part)
        for (std::size_t which = 0; which < laws[part].size(); ++which)
            summary.laws[part][which] = std::move(laws[part][which]).group();
    return summary;
}

}  // namespace

Spread spread_of(std::vector<double> values) {
    if (values.empty()) return {};
    // Nothing else puts a NaN, which compares with nothing, in its place: behind all numbers.
    std::sort(values.begin(), values.end(),
              [](double a, double b) { return !std::isnan(a) && (std::isnan(b) || a < b); });
    const auto rank = [&](double share) {  // the smallest value that at least so many do not exceed
        const double count = static_cast<double>(values.size());
        return values[static_cast<std::size_t>(std::max(std::ceil(share * count), 1.0)) - 1];
    };
    return {rank(0.5), rank(0.95), values.back()};
}

std::vector<PlacementSummary> summarise(const std::vector<std::string>& placements,
                                        const std::vector<Comparison>& comparisons) {
    std::vector<PlacementSummary> summaries;
    for (const std::string& placement : placements) {
        summaries.push_back(summary_of(placement, comparisons));
        if (summaries.back().rows == 0) summaries.pop_back();
    }
    return summaries;
}

Bounds bounds_of(Quantity quantity, Part part) {
    const double factor = part == Part::narrow_tuning || part == Part::narrow_held_out ? 2.0 : 1.0;
    if (quantity == Quantity::second_moment || quantity == Quantity::token_correlation)
        return {0.01 * factor, 0.01 * factor, 0.01 * factor};
    return {0.01 * factor, 0.03 * factor, 0.06 * factor};
}

std::vector<std::string> exceeded(const std::vector<PlacementSummary>& summaries) {
    std::vector<std::string> sentences;
    for (const PlacementSummary& summary : summaries)
        for (std::size_t part = 0; part < part_words.size(); ++part)
            for (std::size_t q = 0; q < quantity_texts.size(); ++q) {
                const Group& group = summary.groups[part][q];
                const Bounds bounds = bounds_of(static_cast<Quantity>(q), static_cast<Part>(part));
                const auto text = [&](double value) {
                    return static_cast<Quantity>(q) == Quantity::token_correlation
                               ? np::detail::number(value)
                               : np::detail::number(100.0 * value) + " %";
                };
                std::string what;
                const auto test = [&](const char* name, double value, double bound) {
                    if (group.count == 0 || value <= bound) return;
                    what += (what.empty() ? "" : ", ") + std::string(name) + " " + text(value) + " instead of " +
                            text(bound);
                };
                test("median", group.beyond_noise.median, bounds.median);
                test("95th percentile", group.beyond_noise.percentile_95, bounds.percentile_95);
                test("worst", group.beyond_noise.worst, bounds.worst);
                if (what.empty()) continue;
                sentences.push_back(summary.placement + ", " + quantity_texts[q].symbol + ", " +
                                    (part % 2 == 0 ? "tuning" : "held out") + (part < 2 ? "" : ", narrow") + ": " +
                                    what + " (" + group.worst + ")");
            }
    return sentences;
}

}  // namespace accuracy
