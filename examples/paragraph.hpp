// SPDX-License-Identifier: BSD-3-Clause
//
// Running text for a terminal.
#pragma once

#include <cstddef>
#include <ostream>
#include <sstream>
#include <string>

/// The text in lines of at most 100 columns, of which all but the first start with `indent` blanks. The first starts
/// where the stream is, behind `column` others.
inline void paragraph(std::ostream& stream, const std::string& text, std::size_t indent = 0, std::size_t column = 0) {
    constexpr std::size_t columns = 100;
    std::istringstream words(text);
    bool first = true;
    for (std::string word; words >> word;) {
        if (!first && column + 1 + word.size() > columns) {
            stream << '\n' << std::string(indent, ' ');
            column = indent;
            first = true;
        }
        stream << (first ? "" : " ") << word;
        column += (first ? 0 : 1) + word.size();
        first = false;
    }
    stream << '\n';
}
