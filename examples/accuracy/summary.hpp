// SPDX-License-Identifier: BSD-3-Clause
//
// Many errors in a few numbers, for each placement and quantity: of the rows that the theory may be tuned on, of those
// held out, and of the narrow models apart.
#pragma once

#include <array>
#include <cstddef>
#include <normplace/analysis/report.hpp>
#include <string>
#include <vector>

#include "quantity.hpp"
#include "store.hpp"

namespace accuracy {

enum class Part { tuning, held_out, narrow_tuning, narrow_held_out };
inline constexpr std::array<const char*, 4> part_words{"tuning", "held_out", "narrow_tuning", "narrow_held_out"};

/// NaN where there is nothing to summarise.
struct Spread {
    double median = normplace::not_available;
    double percentile_95 = normplace::not_available;
    double worst = normplace::not_available;
};
Spread spread_of(std::vector<double> values);

struct Group {
    std::size_t count = 0;                             ///< numbers with a prediction
    std::size_t missing = 0;                           ///< measured numbers without one
    std::size_t rounded = 0;                           ///< numbers too small to measure, and predicted to be
    Spread error;                                      ///< as `Error::size`
    Spread beyond_noise;                               ///< as `Error::beyond_noise`
    double standard_error = normplace::not_available;  ///< median of the measurement's
    std::string worst;                                 ///< what is furthest off beyond the noise, and where
};

/// A law's errors, and the prediction's at the same question: how a layer's gradient compares with the last one's.
struct LawGroup {
    Spread predicted, xiong, kedia;
    double standard_error = normplace::not_available;
};

struct PlacementSummary {
    std::string placement;
    std::array<std::array<Group, quantity_texts.size()>, part_words.size()> groups;  ///< [part][quantity]
    /// [tuning or held out][W_2 or all matrices of a layer], narrow models included
    std::array<std::array<LawGroup, 2>, 2> laws;
    bool has_laws = false;
    std::array<double, quantity_texts.size()> standard_errors;  ///< median of the measurement's, over all parts
    std::size_t rows = 0, rows_with_warnings = 0;
    std::string warning;  ///< the first row's
};

/// Of those of the placements that there is something of.
std::vector<PlacementSummary> summarise(const std::vector<std::string>& placements,
                                        const std::vector<Comparison>& comparisons);

/// What an error beyond the noise may be at most: relative, but of a correlation absolute. Twice that for narrow
/// models.
struct Bounds {
    double median, percentile_95, worst;
};
Bounds bounds_of(Quantity quantity, Part part);

/// Every bound that is exceeded, as a sentence.
std::vector<std::string> exceeded(const std::vector<PlacementSummary>& summaries);

}  // namespace accuracy
