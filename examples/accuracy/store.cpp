// SPDX-License-Identifier: BSD-3-Clause
#include "store.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <normplace/io/atomic_file.hpp>

#include "../usage_error.hpp"
#include "quantity.hpp"

namespace accuracy {

namespace np = normplace;

namespace {

const std::vector<std::string> columns{"row",      "held_out",  "placement", "model",         "seeds",
                                       "quantity", "predicted", "measured",  "standard_error"};

np::CsvField number(double value) {
    if (!std::isfinite(value)) return std::nullopt;
    char text[40];
    std::snprintf(text, sizeof text, "%.9g", value);
    return text;
}

using Fields = std::vector<np::CsvField>;

Fields fields_of(const Comparison& comparison, const np::Compared& value) {
    return {comparison.row.number,
            comparison.row.held_out ? 1 : 0,
            comparison.placement,
            comparison.row.description(),
            comparison.seeds,
            value.name,
            number(value.predicted),
            number(value.measured),
            number(value.standard_error)};
}

std::string line_of(const Fields& fields) {
    std::string line;
    for (const np::CsvField& field : fields) line += (line.empty() ? "" : ",") + field.text();
    return line;
}

std::string header() { return line_of({columns.begin(), columns.end()}); }

/// No field of ours has a comma or a quote.
std::vector<std::string> split(const std::string& line) {
    std::vector<std::string> fields(1);
    for (const char c : line) {
        if (c == ',') fields.emplace_back();
        else fields.back() += c;
    }
    return fields;
}

double number_from(const std::string& field) {
    return field.empty() ? np::not_available : std::strtod(field.c_str(), nullptr);
}

}  // namespace

std::vector<double> Comparison::resolution() const {
    constexpr double share_of_the_largest = 1e-6;
    std::vector<double> least(row.model.layers, 0.0);
    for (const np::Compared& value : numbers) {
        const std::optional<Quantity> quantity = quantity_of(value.name);
        if (!quantity || !is_matrix(*quantity)) continue;
        double& layer = least[layer_of(value.name)];
        layer = std::fmax(layer, share_of_the_largest * value.measured);
    }
    return least;
}

Store::Store(const std::filesystem::path& path) : path_(path) {
    std::error_code none;
    if (path.empty() || !std::filesystem::exists(path, none) || std::filesystem::file_size(path, none) == 0) return;
    std::ifstream file(path, std::ios::binary);
    const auto refuse = [&](const std::string& sentence) {
        throw command_line::UsageError("--csv: '" + path.string() + "' " + sentence);
    };
    std::string line;
    if (!std::getline(file, line) || line != header())
        refuse("exists and is no table of this program, which begins with '" + header() + "'");
    for (std::size_t number = 2; std::getline(file, line); ++number) {
        if (file.eof()) break;  // the run was stopped while it wrote this line
        const std::vector<std::string> fields = split(line);
        std::size_t seeds = 0;
        if (fields.size() == columns.size())
            std::from_chars(fields[4].data(), fields[4].data() + fields[4].size(), seeds);
        if (seeds == 0) refuse("has a line that is not one of this program, the " + std::to_string(number) + "th");
        Block& block = blocks_[{fields[2], fields[3], seeds}];
        // A block that was not finished is followed by the whole of it, from the run that went on.
        if (!block.empty() && split(block.front())[5] == fields[5]) block.clear();
        block.push_back(line);
    }
}

bool Store::find(Comparison& comparison) {
    const std::string model = comparison.row.description();
    const auto begin = blocks_.lower_bound({comparison.placement, model, 0}),
               end = blocks_.upper_bound({comparison.placement, model, std::numeric_limits<std::size_t>::max()});
    for (auto block = end; block != begin;) {  // the most seeds first
        --block;
        if (block->first.seeds < comparison.row.seeds) return false;
        std::map<std::string, std::vector<std::string>> lines;
        for (const std::string& line : block->second) {
            std::vector<std::string> fields = split(line);
            lines[fields[5]] = std::move(fields);
        }
        // What the file lacks and nobody looks at came into the reports later.
        std::vector<np::Compared> numbers = comparison.numbers;
        bool complete = true;
        for (np::Compared& number : numbers) {
            const auto line = lines.find(number.name);
            if (line == lines.end()) {
                complete = complete && !quantity_of(number.name);
                continue;
            }
            number.measured = number_from(line->second[7]);
            number.standard_error = number_from(line->second[8]);
        }
        if (!complete) continue;
        comparison.numbers = std::move(numbers);
        comparison.seeds = block->first.seeds;
        return true;
    }
    return false;
}

void Store::begin(const std::vector<Comparison>& found) {
    if (path_.empty()) return;
    for (const Comparison& comparison : found) {
        Block& block = blocks_[{comparison.placement, comparison.row.description(), comparison.seeds}];
        block.clear();
        for (const np::Compared& value : comparison.numbers) block.push_back(line_of(fields_of(comparison, value)));
    }
    np::AtomicFile file(path_);
    file.write(header() + '\n');
    for (const auto& [key, block] : blocks_)
        for (const std::string& line : block) file.write(line + '\n');
    file.commit();
    log_.emplace(np::CsvLog::resume(path_, columns, std::numeric_limits<std::uint64_t>::max()));
}

void Store::add(const Comparison& comparison) {
    if (!log_) return;
    for (const np::Compared& value : comparison.numbers) log_->write(fields_of(comparison, value));
}

void write_csv(std::ostream& stream, const std::vector<Comparison>& comparisons) {
    stream << header() << '\n';
    for (const Comparison& comparison : comparisons)
        for (const np::Compared& value : comparison.numbers) stream << line_of(fields_of(comparison, value)) << '\n';
}

}  // namespace accuracy
