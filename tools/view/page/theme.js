// Light and dark: as the system says, until a person chooses.

import { keepSetting, setting } from './settings.js';

const choices = ['system', 'light', 'dark'];
const signs = { system: '◐', light: '☀', dark: '☾' };

/** Applies the kept theme and makes the button go through system, light and dark. */
export function startTheme(button) {
  let choice = setting('theme', 'system');
  if (!choices.includes(choice)) choice = 'system';
  const apply = () => {
    document.documentElement.dataset.theme = choice;
    button.textContent = signs[choice];
    button.setAttribute('aria-label', `Theme: ${choice}`);
    button.title = `Theme: ${choice}`;
    document.dispatchEvent(new Event('themechange'));
  };
  button.addEventListener('click', () => {
    choice = choices[(choices.indexOf(choice) + 1) % choices.length];
    keepSetting('theme', choice);
    apply();
  });
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', apply);
  apply();
}
