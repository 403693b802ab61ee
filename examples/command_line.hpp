// SPDX-License-Identifier: BSD-3-Clause
//
// What the programs' command lines share: checks whose fault is a sentence, and the exit status.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <normplace/placement/visit.hpp>
#include <string>
#include <utility>
#include <vector>

#include "usage_error.hpp"

namespace command_line {

/// A whole number of a sensible size, so that a slip of the pen ends in a sentence and not in days of work.
inline CLI::Validator whole_number(std::size_t largest, std::size_t least = 1) {
    return CLI::Validator(
        [least, largest](const std::string& text) {
            const bool digits = !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == text.npos;
            if (digits && std::stoul(text) >= least && std::stoul(text) <= largest) return std::string();
            return "'" + text + "' is not a whole number from " + std::to_string(least) + " to " +
                   std::to_string(largest);
        },
        "");
}

/// A number in [least, largest].
inline CLI::Validator number_between(double least, double largest) {
    return CLI::Validator(
        [least, largest](const std::string& text) {
            char* end = nullptr;
            const double value = std::strtod(text.c_str(), &end);
            if (!text.empty() && *end == '\0' && value >= least && value <= largest) return std::string();
            const auto plain = [](double bound) {
                char digits[32];
                std::snprintf(digits, sizeof digits, "%g", bound);
                return std::string(digits);
            };
            return "'" + text + "' is not a number from " + plain(least) + " to " + plain(largest);
        },
        "");
}

inline CLI::Validator positive_number() {
    return CLI::Validator(
        [](const std::string& text) {
            char* end = nullptr;
            const double value = std::strtod(text.c_str(), &end);
            if (!text.empty() && *end == '\0' && value > 0.0 && std::isfinite(value)) return std::string();
            return "'" + text + "' is not a positive number";
        },
        "");
}

inline CLI::Validator one_of(const std::vector<std::string>& words) {
    return CLI::Validator(
        [words](const std::string& text) {
            if (std::find(words.begin(), words.end(), text) != words.end()) return std::string();
            return "'" + text + "' is not one of " + CLI::detail::join(words, ", ");
        },
        "");
}

inline CLI::Validator placement_name() {
    return CLI::Validator(
        [](const std::string& text) {
            try {
                normplace::placement_named(text);
                return std::string();
            } catch (const std::invalid_argument& error) {
                return std::string(error.what());
            }
        },
        "");
}

/// Guards against `--json --csv x`, which would otherwise write a file called `--csv`.
inline CLI::Validator file_name() {
    return CLI::Validator(
        [](const std::string& text) {
            if (!text.empty() && !text.starts_with("--")) return std::string();
            return "'" + text + "' is not a file name";
        },
        "");
}

/// Before hours of work, not after.
inline void check_writable(const std::string& option, const std::string& file) {
    if (file.empty() || file == "-") return;
    const bool existed = std::filesystem::exists(file);
    if (!std::ofstream(file, std::ios::app)) throw UsageError(option + ": '" + file + "' cannot be written");
    if (!existed) std::filesystem::remove(file);
}

/// No file is written twice, or read and written. `outputs` are options and their files.
inline void check_outputs(const std::vector<std::pair<std::string, std::string>>& outputs,
                          const std::vector<std::string>& inputs) {
    std::error_code none;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        const auto& [option, file] = outputs[i];
        if (file.empty()) continue;
        for (std::size_t j = 0; j < i; ++j)
            if (outputs[j].second == file)
                throw UsageError("'" + file + "' is to be written twice; expected different files");
        for (const std::string& input : inputs)
            if (!input.empty() && std::filesystem::equivalent(file, input, none))
                throw UsageError(option + ": '" + file + "' is to be written and is to be read as well");
    }
}

/// One line, whatever the library makes of it.
inline std::string sentence(std::string text) {
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
}

/// @return false when the program has nothing more to do, because help was asked for
/// @throws UsageError for a fault of the command line
inline bool parse(CLI::App& app, int argc, const char* const* argv) {
    try {
        app.parse(argc, argv);
        return true;
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() != 0) throw UsageError(sentence(error.what()));
        app.exit(error);
        return false;
    }
}

/// body() and the exit status: what it returns; 2 for a fault of the command line, 1 for any other, each with one
/// sentence on standard error.
template <class Body>
int run_program(const char* name, const Body& body) {
    try {
        return body();
    } catch (const UsageError& error) {
        std::cerr << name << ": " << error.what() << '\n';
        return 2;
    } catch (const std::exception& error) {
        std::cerr << name << ": " << error.what() << '\n';
        return 1;
    }
}

}  // namespace command_line
