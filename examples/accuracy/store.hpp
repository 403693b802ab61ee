// SPDX-License-Identifier: BSD-3-Clause
//
// The CSV file: what was measured, so that a run that was stopped goes on, and a prediction that was improved is
// compared at once. One line per number; the lines of one row and placement belong together.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <normplace/io/csv_log.hpp>
#include <normplace/measure/compare.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "grid.hpp"

namespace accuracy {

/// One placement at one row.
struct Comparison {
    Row row;
    std::string placement;
    std::size_t seeds = 0;                     ///< that were measured
    std::vector<normplace::Compared> numbers;  ///< in the order of `for_each_quantity`
    std::vector<std::string> warnings;         ///< of the prediction

    /// For each layer the norm beneath which a matrix's gradient is the rounding of `float` and no measurement. Where
    /// tokens are all but equal, W_q's and W_k's vanish, and a twentieth of this is left of them.
    std::vector<double> resolution() const;
};

class Store {
public:
    /// Reads the file, when there is one. An empty name: nothing is kept.
    /// @throws UsageError when it is another file
    explicit Store(const std::filesystem::path& path);

    /// Fills in what was measured, where the file has all that is looked at, over at least as many seeds as the row
    /// wants.
    bool find(Comparison& comparison);

    /// Replaces the file by one with these, which were found and whose predictions may be newer, and with all else that
    /// it had. After that there is `add`.
    void begin(const std::vector<Comparison>& found);

    /// In the file when this returns.
    void add(const Comparison& comparison);

private:
    struct Key {
        std::string placement, model;
        std::size_t seeds;
        auto operator<=>(const Key&) const = default;
    };
    using Block = std::vector<std::string>;  // lines

    std::filesystem::path path_;
    std::map<Key, Block> blocks_;
    std::optional<normplace::CsvLog> log_;
};

/// The same lines to a stream.
void write_csv(std::ostream& stream, const std::vector<Comparison>& comparisons);

}  // namespace accuracy
